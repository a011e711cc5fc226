// Overlay-double is a controller and edge routers good enough for the OpenZiti Go SDK, and that SDK as dialler and host.
//
//	overlay-double serve ...     the network; reads commands from its input, one answer a line
//	overlay-double dial ...      dials and checks what comes back
//	overlay-double forward ...   a TCP port on the loopback; each connection is a dial
//	overlay-double host ...      the SDK hosts an echo, to compare with
//
// Each ends when its input ends, so that nothing outlives the test that started it.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/openziti/identity"
	"github.com/openziti/sdk-golang/ziti"
)

func main() {
	log.SetOutput(os.Stderr)
	if len(os.Args) < 2 {
		log.Fatal("expected serve, dial, forward or host")
	}
	commands := map[string]func([]string){"serve": serve, "dial": dial, "forward": forward, "host": host}
	command, ok := commands[os.Args[1]]
	if !ok {
		log.Fatalf("%s: expected serve, dial, forward or host", os.Args[1])
	}
	command(os.Args[2:])
}

func serve(args []string) {
	var o options
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	flags.BoolVar(&o.encrypt, "encrypt", true, "services require encryption end to end")
	flags.BoolVar(&o.assign, "assign", true, "routers assign connection ids")
	flags.BoolVar(&o.oidc, "oidc", false, "the host gets OIDC sessions")
	flags.BoolVar(&o.jwt, "jwt", false, "tokens of the host's service sessions look like a JWT")
	flags.BoolVar(&o.rsa, "rsa", false, "the host's key is RSA")
	flags.IntVar(&o.routers, "routers", 1, "edge routers")
	flags.IntVar(&o.controllers, "controllers", 1, "addresses of the controller")
	flags.IntVar(&o.fillers, "fillers", 0, "more services than the ones named")
	flags.DurationVar(&o.tokenLife, "token-life", 0, "life of the host's API sessions; 0 is long")
	names := flags.String("services", "runner-1", "services, with commas between")
	must(flags.Parse(args))
	o.services = strings.Split(*names, ",")
	if o.oidc && o.tokenLife == 0 {
		o.tokenLife = long
	}

	n := newNetwork(o)
	var urls []string
	for i := range o.controllers {
		urls = append(urls, startController(n, fmt.Sprintf("ctrl%d", i+1)))
	}
	for i := range o.routers {
		name := fmt.Sprintf("er%d", i+1)
		n.addresses = append(n.addresses, address{name, startRouter(n, name)})
	}
	print(object{
		"host": n.document(n.authority, "host", urls), "client": n.document(n.authority, "client", urls[:1]),
		"stranger": n.document(newAuthority(), "host", urls),
	})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		print(n.command(strings.Fields(lines.Text())))
	}
}

// document is an identity as enrolment returns it. A stranger's certificate is of another authority.
func (n *network) document(issuer *authority, name string, urls []string) object {
	cert, key := issuer.issue(name, false, n.rsa && name == "host")
	id := identity.Config{Key: "pem:" + key, Cert: "pem:" + cert, CA: "pem:" + n.authority.pem}
	return object{"ztAPI": urls[0], "ztAPIs": urls, "configTypes": nil, "id": id, "enableHa": false}
}

func (n *network) command(words []string) any {
	if len(words) == 0 {
		return object{"error": "empty command"}
	}
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch words[0] {
	case "drop": // ROUTER IDENTITY
		return object{"dropped": n.drop(arg(1), arg(2))}
	case "forget":
		n.mu.Lock()
		n.forget()
		n.mu.Unlock()
		return object{"dropped": n.drop("", "")}
	case "service": // NAME on|off
		n.mu.Lock()
		one := n.byName(arg(1))
		if one != nil {
			one.bindable = arg(2) == "on"
		}
		n.mu.Unlock()
		if one == nil {
			return object{"error": "no such service"}
		}
		if arg(2) == "off" {
			n.revoke(one.id)
		}
		return object{}
	case "switch": // CONTROLLER-OR-ROUTER on|off
		n.mu.Lock()
		n.off[arg(1)] = arg(2) == "off"
		n.mu.Unlock()
		if arg(2) == "off" {
			n.drop(arg(1), "")
		}
		return object{}
	case "list": // ROUTER on|off: whether the controller names it
		n.mu.Lock()
		n.hidden[arg(1)] = arg(2) == "off"
		n.mu.Unlock()
		return object{}
	case "delete": // IDENTITY
		n.mu.Lock()
		n.deleted[arg(1)] = true
		for token, s := range n.sessions {
			if s.identity == arg(1) {
				delete(n.sessions, token)
			}
		}
		n.mu.Unlock()
		return object{"dropped": n.drop("", arg(1))}
	case "stats":
		n.mu.Lock()
		defer n.mu.Unlock()
		binds := map[string]int{}
		for _, one := range n.services {
			if one.bindable || len(n.binds[one.id]) > 0 {
				binds[one.name] = len(n.binds[one.id])
			}
		}
		return object{"binds": binds, "hits": n.hits, "tokenUpdates": n.updates, "inspected": n.inspected, "legs": n.legs()}
	}
	return object{"error": "unknown command " + words[0]}
}

func (n *network) legs() (count int) {
	for c := range n.conns {
		if c.identity == "host" {
			count += len(c.legs)
		}
	}
	return count
}

func print(v any) {
	line, err := json.Marshal(v)
	must(err)
	fmt.Println(string(line))
}

func load(path string) ziti.Context {
	config, err := ziti.NewConfigFromFile(path)
	must(err)
	context, err := ziti.NewContext(config)
	must(err)
	return context
}

// untilInputEnds keeps a command running as long as its starter does.
func untilInputEnds() { _, _ = io.Copy(io.Discard, os.Stdin) }

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
