package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net"
	"sync"
	"time"

	"github.com/openziti/sdk-golang/ziti"
)

type closeWriter interface{ CloseWrite() error }

// connect dials with a limit that a busy machine can keep: after a dial that timed out the SDK 1.6.0 panics.
func connect(context ziti.Context, service string) (net.Conn, error) {
	return context.DialWithOptions(service, &ziti.DialOptions{ConnectTimeout: 5 * time.Minute})
}

// dial opens connections side by side, sends bytes on each, and compares the digest of what the host echoes.
func dial(args []string) {
	flags := flag.NewFlagSet("dial", flag.ExitOnError)
	id := flags.String("id", "", "identity file")
	service := flags.String("service", "runner-1", "")
	count := flags.Int("n", 1, "connections")
	size := flags.Int("bytes", 1<<20, "bytes on each")
	chunk := flags.Int("chunk", 32<<10, "bytes of one write at most")
	hold := flags.Bool("hold", false, "send one byte, then keep the connections open until the input ends")
	must(flags.Parse(args))
	context := load(*id)
	if *hold {
		*size = 1
	}

	var wg sync.WaitGroup
	var mu sync.Mutex
	failures := []string{}
	open := []net.Conn{}
	start := time.Now()
	for i := range *count {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c, err := echoed(context, *service, *size, *chunk, int64(i), *hold)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failures = append(failures, fmt.Sprintf("%d: %v", i, err))
			} else if *hold {
				open = append(open, c)
			}
		}()
	}
	wg.Wait()
	print(object{"failures": failures, "seconds": time.Since(start).Seconds()})
	if *hold {
		untilInputEnds()
		for _, c := range open {
			_ = c.Close()
		}
	}
}

func echoed(context ziti.Context, service string, size, chunk int, seed int64, keep bool) (net.Conn, error) {
	c, err := connect(context, service)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	if !keep {
		defer c.Close()
	}
	// one block again and again, with its number in front: making random bytes must not be what is measured
	block := make([]byte, chunk)
	_, _ = rand.New(rand.NewSource(seed)).Read(block)
	sent := make(chan error, 1)
	want, got := sha256.New(), sha256.New()
	go func() {
		for left := size; left > 0; {
			k := min(left, chunk)
			copy(block, fmt.Sprintf("%16d", left))
			_, _ = want.Write(block[:k])
			if _, err := c.Write(block[:k]); err != nil {
				sent <- fmt.Errorf("write: %w", err)
				return
			}
			left -= k
		}
		if !keep {
			// the host sees the end, echoes what it has, and ends too
			sent <- c.(closeWriter).CloseWrite()
			return
		}
		sent <- nil
	}()
	var from io.Reader = c
	if keep {
		from = io.LimitReader(c, int64(size))
	}
	read, err := io.Copy(got, from)
	if err == nil {
		err = <-sent
	}
	if err != nil {
		return nil, fmt.Errorf("after %d of %d bytes: %w", read, size, err)
	}
	if read != int64(size) || !bytes.Equal(want.Sum(nil), got.Sum(nil)) {
		return nil, fmt.Errorf("got %d bytes of %d, or others", read, size)
	}
	return c, nil
}

// forward listens on the loopback and dials for each connection, keeping half-closed ones.
func forward(args []string) {
	flags := flag.NewFlagSet("forward", flag.ExitOnError)
	id := flags.String("id", "", "identity file")
	service := flags.String("service", "runner-1", "")
	must(flags.Parse(args))
	context := load(*id)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	print(object{"address": listener.Addr().String()})
	go func() {
		for {
			from, err := listener.Accept()
			must(err)
			go func() {
				to, err := connect(context, *service)
				if err != nil {
					log.Println("dial:", err)
					_ = from.Close()
					return
				}
				splice(from, to)
			}()
		}
	}()
	untilInputEnds()
}

func splice(a, b net.Conn) {
	var wg sync.WaitGroup
	copyOne := func(to, from net.Conn) {
		defer wg.Done()
		if _, err := io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from}); err != nil {
			_ = a.Close()
			_ = b.Close()
		}
		_ = to.(closeWriter).CloseWrite()
	}
	wg.Add(2)
	go copyOne(a, b)
	go copyOne(b, a)
	wg.Wait()
	_ = a.Close()
	_ = b.Close()
}

// host echoes with the SDK.
func host(args []string) {
	flags := flag.NewFlagSet("host", flag.ExitOnError)
	id := flags.String("id", "", "identity file")
	service := flags.String("service", "runner-1", "")
	must(flags.Parse(args))
	listenOptions := ziti.DefaultListenOptions()
	listenOptions.WaitForNEstablishedListeners = 1
	listener, err := load(*id).ListenWithOptions(*service, listenOptions)
	must(err)
	print(object{"bound": *service})
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{c}, make([]byte, 32<<10))
				_ = c.(closeWriter).CloseWrite()
			}()
		}
	}()
	untilInputEnds()
}
