package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	base  = "/edge/client/v1"
	stamp = "2006-01-02T15:04:05.000Z"
	long  = 30 * time.Minute
)

type object = map[string]any

// controller is one address of the client API; all of them share the network's state.
type controller struct {
	*network
	name string
}

func startController(n *network, name string) (url string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	cert, key := n.authority.issue(name, true, false)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	must(err)
	c := &controller{n, name}
	// a foreign certificate is refused by authenticate, not by TLS
	server := &http.Server{Handler: http.HandlerFunc(c.handle), TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert, NextProtos: []string{"http/1.1"},
	}, ErrorLog: log.Default()}
	go func() { log.Println(server.ServeTLS(listener, "", "")) }()
	return "https://" + listener.Addr().String() + base
}

func (c *controller) handle(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off[c.name] {
		panic(http.ErrAbortHandler)
	}
	path, api := strings.CutPrefix(r.URL.Path, base)
	c.hits[r.Method+" "+path]++
	who := c.certificate(r)
	switch {
	case !api && c.oidc && who == "host":
		c.oidcStep(w, r, who)
	case r.Method == "GET" && path == "/version":
		capabilities := []string{}
		if c.oidc && who == "host" {
			capabilities = append(capabilities, "OIDC_AUTH")
		}
		write(w, 200, object{"version": "v1.6.8", "capabilities": capabilities, "apiVersions": object{
			"edge-client": object{"v1": object{"path": base, "apiBaseUrls": []string{}}}}}, -1)
	case r.Method == "POST" && path == "/authenticate":
		if who == "" || r.URL.Query().Get("method") != "cert" {
			fail(w, 401, "INVALID_AUTH", "The authentication request failed")
			return
		}
		s := &apiSession{id: uuid.NewString(), token: uuid.NewString(), identity: who}
		if who == "host" && c.tokenLife > 0 {
			s.expires = time.Now().Add(c.tokenLife)
		}
		c.sessions[s.token] = s
		write(w, 200, c.session(s), -1)
	case r.Method == "GET" && path == "/controllers":
		write(w, 200, []any{}, 0)
	default:
		token := r.Header.Get("zt-session")
		if bearer, ok := strings.CutPrefix(r.Header.Get("authorization"), "Bearer "); ok {
			token = bearer
		}
		s := c.live(token)
		if s == nil {
			fail(w, 401, "UNAUTHORIZED", "The session is not authorized or the credentials are invalid")
			return
		}
		c.authorized(w, r, path, s)
	}
}

// certificate is the name of the identity that the client proves, if it is one of this network.
func (c *controller) certificate(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return ""
	}
	leaf := r.TLS.PeerCertificates[0]
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: c.authority.pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil || c.deleted[leaf.Subject.CommonName] {
		return ""
	}
	return leaf.Subject.CommonName
}

func (c *controller) authorized(w http.ResponseWriter, r *http.Request, path string, s *apiSession) {
	switch {
	case r.Method == "GET" && path == "/services":
		c.list(w, r, s)
	case r.Method == "GET" && path == "/current-api-session":
		if !s.expires.IsZero() {
			s.expires = time.Now().Add(c.tokenLife)
		}
		write(w, 200, c.session(s), -1)
	case r.Method == "GET" && path == "/current-api-session/service-updates":
		write(w, 200, object{"lastChangeAt": time.Unix(0, 0).UTC().Format(stamp)}, -1)
	case r.Method == "POST" && path == "/sessions":
		c.create(w, r, s)
	case r.Method == "GET" && strings.HasPrefix(path, "/sessions/"):
		session := c.bySessionID[strings.TrimPrefix(path, "/sessions/")]
		if session == nil || c.jwt {
			fail(w, 404, "NOT_FOUND", "session not found")
			return
		}
		detail := c.detail(session)
		detail["token"] = nil
		write(w, 200, detail, -1)
	case r.Method == "GET" && strings.HasSuffix(path, "/edge-routers"):
		session := c.byToken[r.Header.Get("session-token")]
		if session == nil || path != "/services/"+session.service+"/edge-routers" {
			fail(w, 404, "NOT_FOUND", "session not found")
			return
		}
		write(w, 200, object{"edgeRouters": c.routerList()}, -1)
	default:
		fail(w, 404, "NOT_FOUND", r.Method+" "+path)
	}
}

func (c *controller) list(w http.ResponseWriter, r *http.Request, s *apiSession) {
	limit, offset := number(r, "limit", 10), number(r, "offset", 0)
	page := []any{}
	for i := offset; i < min(offset+min(limit, 500), len(c.services)); i++ {
		one := c.services[i]
		permissions := []string{"Dial"}
		if one.bindable {
			permissions = append(permissions, "Bind")
		}
		page = append(page, entity(one.id, object{
			"name": one.name, "permissions": permissions, "encryptionRequired": c.encrypt, "config": object{},
			"configs": []any{}, "postureQueries": []any{}, "roleAttributes": []any{}, "terminatorStrategy": "smartrouting",
			"maxIdleTimeMillis": 0,
		}))
	}
	write(w, 200, page, len(c.services))
}

func (c *controller) create(w http.ResponseWriter, r *http.Request, s *apiSession) {
	var in struct{ ServiceId, Type string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	one := c.byID(in.ServiceId)
	if one == nil || (in.Type == "Bind" && !one.bindable) {
		fail(w, 404, "NOT_FOUND", "service not found")
		return
	}
	session := &serviceSession{id: uuid.NewString(), token: uuid.NewString(), service: one.id, kind: in.Type}
	if c.jwt && s.identity == "host" {
		session.token = "ey" + session.token
	}
	c.bySessionID[session.id] = session
	c.byToken[session.token] = session
	write(w, 201, c.detail(session), -1)
}

func (c *controller) session(s *apiSession) object {
	life := long
	if !s.expires.IsZero() {
		life = time.Until(s.expires)
	}
	return entity(s.id, object{
		"token": s.token, "identityId": s.identity, "identity": ref(s.identity),
		"expiresAt": time.Now().Add(life).UTC().Format(stamp), "expirationSeconds": int(life.Seconds() + 0.5),
		"authQueries": []any{}, "configTypes": []any{}, "ipAddress": "127.0.0.1", "isMfaComplete": false,
		"isMfaRequired": false, "authenticatorId": "a", "isCertExtendable": true,
	})
}

func (c *controller) detail(s *serviceSession) object {
	return entity(s.id, object{
		"token": s.token, "type": s.kind, "serviceId": s.service, "service": ref(s.service), "identityId": "x",
		"apiSessionId": "x", "apiSession": ref("x"), "edgeRouters": c.routerList(),
	})
}

func (c *controller) routerList() []any {
	list := []any{}
	for _, router := range c.addresses {
		if c.hidden[router.name] {
			continue
		}
		protocols := map[string]string{"tls": "tls://" + router.addr, "wss": "wss://ignored.invalid:443"}
		list = append(list, object{
			"name": router.name, "hostname": "127.0.0.1", "isOnline": true, "cost": 0, "disabled": false,
			"noTraversal": false, "syncStatus": "SYNC_DONE", "supportedProtocols": protocols, "urls": protocols,
		})
	}
	return list
}

func entity(id string, more object) object {
	at := time.Unix(0, 0).UTC().Format(stamp)
	o := object{"_links": object{}, "createdAt": at, "updatedAt": at, "id": id, "tags": object{}}
	for k, v := range more {
		o[k] = v
	}
	return o
}

func ref(id string) object { return object{"id": id, "name": id, "entity": "", "_links": object{}} }

func number(r *http.Request, key string, otherwise int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(key))
	if err != nil {
		return otherwise
	}
	return n
}

func write(w http.ResponseWriter, code int, data any, total int) {
	meta := object{}
	if total >= 0 {
		meta["pagination"] = object{"limit": 500, "offset": 0, "totalCount": total}
	}
	send(w, code, object{"data": data, "meta": meta})
}

func fail(w http.ResponseWriter, code int, kind, message string) {
	send(w, code, object{"error": object{"code": kind, "message": message, "requestId": "x"}, "meta": object{}})
}

func send(w http.ResponseWriter, code int, body any) {
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}
