package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"sync/atomic"
	"time"

	"github.com/openziti/identity"
)

// authority is a certificate authority of one run.
type authority struct {
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	pem    string
	serial atomic.Int64
}

func newAuthority() *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "overlay double"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(err)
	cert, err := x509.ParseCertificate(der)
	must(err)
	a := &authority{cert: cert, key: key, pem: text("CERTIFICATE", der)}
	a.serial.Store(1)
	return a
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// issue makes a certificate and its key, as PEM. Servers are 127.0.0.1 and localhost.
func (a *authority) issue(name string, server, withRSA bool) (cert, key string) {
	signer, kind, der := newKey(withRSA)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		template.DNSNames = []string{"localhost"}
		template.IPAddresses = []net.IP{net.ParseIP("127.0.0.1")}
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, a.cert, signer.Public(), a.key)
	must(err)
	return text("CERTIFICATE", signed), text(kind, der)
}

func (a *authority) server(name string) identity.Config {
	cert, key := a.issue(name, true, false)
	return identity.Config{
		Cert: "pem:" + cert, Key: "pem:" + key, ServerCert: "pem:" + cert, ServerKey: "pem:" + key, CA: "pem:" + a.pem,
	}
}

func newKey(withRSA bool) (crypto.Signer, string, []byte) {
	if withRSA {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		must(err)
		return key, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	der, err := x509.MarshalECPrivateKey(key)
	must(err)
	return key, "EC PRIVATE KEY", der
}

func text(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
