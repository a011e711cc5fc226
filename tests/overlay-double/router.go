package main

import (
	"crypto/x509"
	"log"
	"net"
	"sync/atomic"
	"time"

	"github.com/openziti/channel/v4"
	"github.com/openziti/channel/v4/latency"
	"github.com/openziti/foundation/v2/versions"
	"github.com/openziti/identity"
	"github.com/openziti/sdk-golang/ziti/edge"
	"github.com/openziti/transport/v2"
	"github.com/openziti/transport/v2/tls"
)

// The SDK misses the message when it comes at once, see the contract's traps.
const establishDelay = 100 * time.Millisecond

func init() { transport.AddAddressParser(tls.AddressParser{}) }

// conn is one SDK's channel to one router.
type conn struct {
	*network
	router, identity, token string
	ch                      channel.Channel
	legs                    map[uint32]*leg
	next                    atomic.Uint32
	closed                  bool
}

func startRouter(n *network, name string) string {
	id, err := identity.LoadIdentity(n.authority.server(name))
	must(err)
	addr := freeAddress()
	parsed, err := transport.ParseAddress("tls:" + addr)
	must(err)
	config := channel.DefaultListenerConfig()
	config.Headers = map[int32][]byte{channel.HelloVersionHeader: version(), edge.SupportsBindSuccessHeader: {1}}
	config.ConnectionHandlers = []channel.ConnectionHandler{hello{n}}
	accept := func(u channel.Underlay) { n.accept(name, u) }
	_, err = channel.NewClassicListenerF(&identity.TokenId{Identity: id, Token: name}, parsed, config, accept)
	must(err)
	return addr
}

type hello struct{ *network }

// HandleConnection notes whose session it is. It never refuses: a router closes the channel after its answer.
func (h hello) HandleConnection(hello *channel.Hello, certs []*x509.Certificate) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	hello.IdToken = ""
	s := h.live(string(hello.Headers[edge.SessionTokenHeader]))
	if s != nil && len(certs) > 0 && certs[0].Subject.CommonName == s.identity {
		hello.IdToken = s.token
	}
	return nil
}

func (n *network) accept(router string, u channel.Underlay) {
	c := &conn{network: n, router: router, token: u.Id(), legs: map[uint32]*leg{}}
	c.next.Store(1 << 31)
	n.mu.Lock()
	s := n.live(c.token)
	off := n.off[router]
	n.mu.Unlock()
	if s == nil || off {
		_ = u.Close()
		return
	}
	c.identity = s.identity
	if _, err := channel.NewChannelWithUnderlay(router, u, c, channel.DefaultOptions()); err != nil {
		log.Println("accept:", err)
	}
}

func (c *conn) BindChannel(b channel.Binding) error {
	c.ch = b.GetChannel()
	c.mu.Lock()
	c.conns[c] = true
	c.mu.Unlock()
	async := func(kind int32, handle func(*channel.Message)) {
		b.AddTypedReceiveHandler(&channel.AsyncFunctionReceiveAdapter{
			Type: kind, Handler: func(m *channel.Message, _ channel.Channel) { handle(m) },
		})
	}
	async(edge.ContentTypeBind, c.onBind)
	async(edge.ContentTypeConnect, c.onConnect)
	async(edge.ContentTypeUnbind, c.onUnbind)
	async(edge.ContentTypeUpdateToken, c.onToken)
	b.AddReceiveHandlerF(edge.ContentTypeData, func(m *channel.Message, _ channel.Channel) { c.relay(m) })
	b.AddReceiveHandlerF(edge.ContentTypeStateClosed, func(m *channel.Message, _ channel.Channel) { c.relay(m) })
	b.AddReceiveHandler(channel.ContentTypeLatencyType, &latency.LatencyHandler{})
	b.AddCloseHandler(channel.CloseHandlerF(func(channel.Channel) { c.onClose() }))
	if c.identity == "host" && c.tokenLife > 0 {
		go c.expire()
	}
	return nil
}

// expire closes the channel when its token is over and no new one came.
func (c *conn) expire() {
	for range time.Tick(100 * time.Millisecond) {
		c.mu.Lock()
		over := c.live(c.token) == nil
		closed := c.closed
		c.mu.Unlock()
		if closed {
			return
		}
		if over {
			_ = c.ch.Close()
			return
		}
	}
}

func (c *conn) onToken(m *channel.Message) {
	c.mu.Lock()
	s := c.live(string(m.Body))
	if s != nil && s.identity == c.identity {
		c.token = s.token
		c.updates++
	}
	c.mu.Unlock()
	kind := int32(edge.ContentTypeUpdateTokenSuccess)
	if s == nil {
		kind = edge.ContentTypeUpdateTokenFailure
	}
	answer := channel.NewMessage(kind, nil)
	answer.ReplyTo(m)
	_ = c.ch.Send(answer)
}

func (c *conn) onClose() {
	c.mu.Lock()
	delete(c.conns, c)
	c.closed = true
	c.removeBinds(func(b *bind) bool { return b.conn == c })
	legs := c.legs
	c.legs = map[uint32]*leg{}
	for _, l := range legs {
		delete(l.peer.conn.legs, l.peer.id)
	}
	c.mu.Unlock()
	for _, l := range legs {
		_ = l.peer.conn.ch.Send(edge.NewStateClosedMsg(l.peer.id, "peer gone"))
	}
}

func version() []byte {
	b, err := versions.StdVersionEncDec.Encode(&versions.VersionInfo{Version: "v1.6.8", OS: "linux", Arch: "amd64"})
	must(err)
	return b
}

func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	defer l.Close()
	return l.Addr().String()
}
