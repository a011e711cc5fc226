package main

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

type options struct {
	encrypt, assign, oidc, jwt, rsa bool
	routers, controllers, fillers   int
	tokenLife                       time.Duration
	services                        []string
}

type apiSession struct {
	id, token, refresh, identity string
	expires                      time.Time // zero: never
}

type serviceSession struct{ id, token, service, kind string }

type service struct {
	id, name string
	bindable bool
}

// network is the state that controllers and routers share.
type network struct {
	options
	authority *authority

	mu          sync.Mutex
	sessions    map[string]*apiSession     // by token
	bySessionID map[string]*serviceSession // service sessions by id
	byToken     map[string]*serviceSession
	services    []*service
	deleted     map[string]bool // identities
	off         map[string]bool // controllers and routers
	binds       map[string][]*bind
	next        int // whose turn it is among the binds
	conns       map[*conn]bool
	hits        map[string]int
	updates     int // token updates
	inspected   []string
	addresses   []address // of routers
	hidden      map[string]bool
	grants      map[string]*grant // OIDC, by request id and by code
}

type address struct{ name, addr string }

func newNetwork(o options) *network {
	n := &network{
		options: o, authority: newAuthority(), deleted: map[string]bool{}, off: map[string]bool{},
		binds: map[string][]*bind{}, conns: map[*conn]bool{}, hits: map[string]int{},
		hidden: map[string]bool{}, grants: map[string]*grant{},
	}
	n.forget()
	for i := range o.fillers {
		n.services = append(n.services, &service{id: "filler-" + uuid.NewString(), name: "filler-" + string(rune('a'+i%26))})
	}
	for _, name := range o.services {
		n.services = append(n.services, &service{id: "id-" + name, name: name, bindable: true})
	}
	return n
}

// forget drops all sessions, as a restarted controller does.
func (n *network) forget() {
	n.sessions = map[string]*apiSession{}
	n.bySessionID = map[string]*serviceSession{}
	n.byToken = map[string]*serviceSession{}
}

func (n *network) byName(name string) *service {
	for _, s := range n.services {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (n *network) byID(id string) *service {
	for _, s := range n.services {
		if s.id == id {
			return s
		}
	}
	return nil
}

// live is the session of a token, if it is known and not over.
func (n *network) live(token string) *apiSession {
	s := n.sessions[token]
	if s == nil || (!s.expires.IsZero() && time.Now().After(s.expires)) {
		return nil
	}
	return s
}

// drop closes the channels of an identity at a router; empty means all.
func (n *network) drop(router, identity string) int {
	n.mu.Lock()
	var found []*conn
	for c := range n.conns {
		if (router == "" || c.router == router) && (identity == "" || c.identity == identity) {
			found = append(found, c)
		}
	}
	n.mu.Unlock()
	for _, c := range found {
		_ = c.ch.Close()
	}
	return len(found)
}
