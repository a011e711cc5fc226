package main

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
)

const redirect = "http://localhost:8080/auth/callback"

// grant is one code flow: what authorize was told, and whether the certificate was seen.
type grant struct {
	challenge, state, identity string
}

// oidcStep is the code flow with PKCE, authenticated by client certificate.
func (c *controller) oidcStep(w http.ResponseWriter, r *http.Request, who string) {
	_ = r.ParseForm()
	switch r.Method + " " + r.URL.Path {
	case "GET /oidc/authorize":
		q := r.URL.Query()
		wanted := map[string]string{
			"response_type": "code", "scope": "openid offline_access", "client_id": "native", "redirect_uri": redirect,
			"code_challenge_method": "S256",
		}
		for key, value := range wanted {
			if q.Get(key) != value {
				fail(w, 400, "INVALID_REQUEST", key)
				return
			}
		}
		id := uuid.NewString()
		c.grants[id] = &grant{challenge: q.Get("code_challenge"), state: q.Get("state")}
		http.Redirect(w, r, "/oidc/login?id="+id, http.StatusFound)
	case "GET /oidc/login":
		w.Header().Set("auth-request-id", r.URL.Query().Get("id"))
		w.WriteHeader(200)
	case "POST /oidc/login/cert":
		g := c.grants[r.PostForm.Get("id")]
		if g == nil || who == "" {
			fail(w, 401, "INVALID_AUTH", "The authentication request failed")
			return
		}
		g.identity = who
		http.Redirect(w, r, "/oidc/authorize/callback?id="+r.PostForm.Get("id"), http.StatusFound)
	case "GET /oidc/authorize/callback":
		id := r.URL.Query().Get("id")
		g := c.grants[id]
		if g == nil || g.identity == "" {
			fail(w, 400, "INVALID_REQUEST", "id")
			return
		}
		delete(c.grants, id)
		code := uuid.NewString()
		c.grants[code] = g
		q := url.Values{"code": {code}, "state": {g.state}}
		http.Redirect(w, r, redirect+"?"+q.Encode(), http.StatusFound)
	case "POST /oidc/oauth/token":
		c.token(w, r)
	default:
		fail(w, 404, "NOT_FOUND", r.URL.Path)
	}
}

func (c *controller) token(w http.ResponseWriter, r *http.Request) {
	form := r.PostForm
	s := &apiSession{id: uuid.NewString(), token: uuid.NewString(), refresh: uuid.NewString()}
	switch form.Get("grant_type") {
	case "authorization_code":
		g := c.grants[form.Get("code")]
		digest := sha256.Sum256([]byte(form.Get("code_verifier")))
		if g == nil || g.challenge != base64.RawURLEncoding.EncodeToString(digest[:]) {
			fail(w, 400, "invalid_grant", "code or verifier")
			return
		}
		delete(c.grants, form.Get("code"))
		s.identity = g.identity
	case "refresh_token":
		var old *apiSession
		for _, one := range c.sessions {
			if one.refresh != "" && one.refresh == form.Get("refresh_token") {
				old = one
			}
		}
		if old == nil || c.deleted[old.identity] {
			fail(w, 400, "invalid_grant", "refresh token")
			return
		}
		old.refresh = "" // it is replaced; the access token lives on until it expires
		s.identity = old.identity
	}
	s.expires = time.Now().Add(c.tokenLife)
	c.sessions[s.token] = s
	send(w, 200, object{
		"access_token": s.token, "refresh_token": s.refresh, "id_token": "x", "token_type": "Bearer",
		"expires_in": int(c.tokenLife.Seconds()),
	})
}
