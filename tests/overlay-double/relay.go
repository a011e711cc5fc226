package main

import (
	"fmt"
	"log"
	"time"

	"github.com/google/uuid"
	"github.com/openziti/channel/v4"
	"github.com/openziti/sdk-golang/ziti/edge"
)

// bind is one terminator.
type bind struct {
	conn           *conn
	id             uint32
	token, service string
	public         []byte
	assign         bool
}

// leg is one end of a circuit.
type leg struct {
	conn *conn
	id   uint32
	peer *leg
}

func (n *network) removeBinds(gone func(*bind) bool) (removed []*bind) {
	for service, list := range n.binds {
		var kept []*bind
		for _, b := range list {
			if gone(b) {
				removed = append(removed, b)
			} else {
				kept = append(kept, b)
			}
		}
		n.binds[service] = kept
	}
	return removed
}

func (c *conn) relay(m *channel.Message) {
	id, _ := m.GetUint32Header(edge.ConnIdHeader)
	c.mu.Lock()
	l := c.legs[id]
	if l != nil && m.ContentType == edge.ContentTypeStateClosed {
		delete(c.legs, id)
		delete(l.peer.conn.legs, l.peer.id)
	}
	c.mu.Unlock()
	if l == nil {
		return
	}
	out := channel.NewMessage(m.ContentType, m.Body)
	out.PutUint32Header(edge.ConnIdHeader, l.peer.id)
	if flags, ok := m.Headers[edge.FlagsHeader]; ok && m.ContentType == edge.ContentTypeData {
		out.Headers[edge.FlagsHeader] = flags
	}
	_ = l.peer.conn.ch.Send(out)
}

func (c *conn) refuse(m *channel.Message, reason string, code uint32) {
	id, _ := m.GetUint32Header(edge.ConnIdHeader)
	answer := edge.NewStateClosedMsg(id, reason)
	answer.ReplyTo(m)
	if code > 0 {
		answer.PutUint32Header(edge.ErrorCodeHeader, code)
	}
	_ = c.ch.Send(answer)
}

func (c *conn) serviceSession(m *channel.Message, kind string) *serviceSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byToken[string(m.Body)]
	if s == nil || s.kind != kind {
		return nil
	}
	return s
}

func (c *conn) onBind(m *channel.Message) {
	id, _ := m.GetUint32Header(edge.ConnIdHeader)
	s := c.serviceSession(m, "Bind")
	if s == nil {
		c.refuse(m, "invalid session", 3)
		return
	}
	assign, _ := m.GetBoolHeader(edge.RouterProvidedConnId)
	assign = assign && c.assign
	b := &bind{conn: c, id: id, token: s.token, service: s.service, public: m.Headers[edge.PublicKeyHeader], assign: assign}
	accepted := edge.NewStateConnectedMsg(id)
	accepted.ReplyTo(m)
	accepted.PutBoolHeader(edge.RouterProvidedConnId, assign)
	_ = accepted.WithTimeout(5 * time.Second).SendAndWaitForWire(c.ch)

	c.mu.Lock()
	if !c.closed {
		c.binds[s.service] = append(c.binds[s.service], b)
	}
	c.mu.Unlock()
	if wanted, _ := m.GetBoolHeader(edge.SupportsBindSuccessHeader); wanted {
		time.Sleep(establishDelay)
		established := channel.NewMessage(edge.ContentTypeBindSuccess, nil)
		established.PutUint32Header(edge.ConnIdHeader, id)
		_ = c.ch.Send(established)
	}
	if supported, _ := m.GetBoolHeader(edge.SupportsInspectHeader); supported {
		c.inspect(id)
	}
}

// inspect asks as a router does, and takes the bind away without a right answer.
func (c *conn) inspect(id uint32) {
	question := channel.NewMessage(edge.ContentTypeConnInspectRequest, nil)
	question.PutUint32Header(edge.ConnIdHeader, id)
	answer, err := question.WithTimeout(5 * time.Minute).SendForReply(c.ch)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.inspected = append(c.inspected, err.Error())
		return
	}
	kind, _ := answer.GetByteHeader(edge.ConnTypeHeader)
	c.inspected = append(c.inspected, fmt.Sprintf("%d", kind))
	if answer.ContentType != edge.ContentTypeConnInspectResponse || kind != byte(edge.ConnTypeBind) {
		log.Println("wrong answer to inspect:", answer.ContentType, kind)
		c.removeBinds(func(b *bind) bool { return b.conn == c && b.id == id })
	}
}

func (c *conn) onUnbind(m *channel.Message) {
	id, _ := m.GetUint32Header(edge.ConnIdHeader)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeBinds(func(b *bind) bool { return b.conn == c && b.id == id })
}

// revoke ends the binds of a service, as when a policy is removed.
func (n *network) revoke(service string) {
	n.mu.Lock()
	removed := n.removeBinds(func(b *bind) bool { return b.service == service })
	n.mu.Unlock()
	for _, b := range removed {
		closed := edge.NewStateClosedMsg(b.id, "bind access lost")
		closed.PutUint32Header(edge.ErrorCodeHeader, 14)
		_ = b.conn.ch.Send(closed)
	}
}

func (c *conn) onConnect(m *channel.Message) {
	s := c.serviceSession(m, "Dial")
	if s == nil {
		c.refuse(m, "invalid session", 0)
		return
	}
	c.mu.Lock()
	var b *bind
	if list := c.binds[s.service]; len(list) > 0 {
		c.network.next++
		b = list[c.network.next%len(list)]
	}
	c.mu.Unlock()
	if b == nil {
		c.refuse(m, fmt.Sprintf("service %s has no terminators", s.service), 0)
		return
	}
	c.connect(m, b)
}

func (c *conn) connect(m *channel.Message, b *bind) {
	id, _ := m.GetUint32Header(edge.ConnIdHeader)
	circuit := uuid.NewString()[:8]
	dial := edge.NewDialMsg(b.id, b.token, c.identity)
	for _, h := range []int32{edge.PublicKeyHeader, edge.ConnectionMarkerHeader, edge.AppDataHeader} {
		if v, ok := m.Headers[h]; ok {
			dial.Headers[h] = v
		}
	}
	dial.PutStringHeader(edge.CircuitIdHeader, circuit)
	dial.PutStringHeader(edge.DialerIdentityId, "id-"+c.identity)
	dial.PutStringHeader(edge.DialerIdentityName, c.identity)

	client := &leg{conn: c, id: id}
	host := &leg{conn: b.conn, peer: client}
	client.peer = host
	join := func(hostID uint32) {
		c.mu.Lock()
		defer c.mu.Unlock()
		host.id = hostID
		b.conn.legs[hostID] = host
		c.legs[id] = client
	}
	if b.assign {
		join(b.conn.next.Add(1))
		dial.PutUint32Header(edge.RouterProvidedConnId, host.id)
	}
	reply, err := dial.WithTimeout(5 * time.Minute).SendForReply(b.conn.ch)
	var result *edge.DialResult
	if err == nil {
		result, err = edge.UnmarshalDialResult(reply)
	}
	if err == nil && !result.Success {
		err = fmt.Errorf("dial failed: %s", result.Message)
	}
	if err != nil {
		c.mu.Lock()
		delete(b.conn.legs, host.id)
		delete(c.legs, id)
		c.mu.Unlock()
		c.refuse(m, err.Error(), 0)
		return
	}
	if !b.assign {
		join(result.NewConnId)
		standing := edge.NewStateConnectedMsg(result.ConnId)
		standing.ReplyTo(reply)
		_ = b.conn.ch.Send(standing)
	}
	connected := edge.NewStateConnectedMsg(id)
	connected.ReplyTo(m)
	connected.PutStringHeader(edge.CircuitIdHeader, circuit)
	if b.public != nil {
		connected.Headers[edge.PublicKeyHeader] = b.public
	}
	_ = connected.WithTimeout(5 * time.Second).SendAndWaitForWire(c.ch)
}
