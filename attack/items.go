package main

import (
	"context"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// This file has the moves whose one object takes more work, or more text, than its bytes: lists of equal, distinct and wrong items, long
// keys, and owners in namespaces of others.

// items sends objects whose lists are as long as a body may be, with equal, distinct or wrong items. Nothing is stored.
func items(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	crowd(rng, 1+m.Size/34, func(_ int, rng *rand.Rand) {
		c := client(a, m.Actor, attackersAddress, true)
		defer c.CloseIdleConnections()
		for ctx.Err() == nil {
			text := listed[rng.IntN(len(listed))]
			if chance(rng, 3) {
				text = multiplied[rng.IntN(len(multiplied))]
			}
			r, ok := kindOf(a, text)
			if !ok {
				continue
			}
			item := pick(rng, func(int) string { return "7" }, func(i int) string { return fmt.Sprint(i + 1) }, func(i int) string { return fmt.Sprint(i%3 + 1) },
				func(i int) string { return fmt.Sprintf("%d?!", i) }, func(i int) string { return fmt.Sprintf("%d%s", i, strings.Repeat("-", 300)) })
			name := fmt.Sprint("items-", rng.IntN(1000))
			if r.Kind == "CustomResourceDefinition" {
				name = fmt.Sprint("items", rng.IntN(1000))
			}
			body := fill(text, name, pick(rng, 60_000, 600_000, largest-10_000), largest, item)
			path := r.path("arena", "")
			if chance(rng, 3) {
				hit(ctx, a, c, m.Actor, "PATCH", r.path("arena", name)+"?dryRun=All&fieldManager=a", []byte(body), "Content-Type", "application/apply-patch+yaml")
				continue
			}
			hit(ctx, a, c, m.Actor, "POST", path+"?dryRun=All"+pick(rng, "", "&fieldValidation=Strict"), []byte(body))
		}
	})
}

// multiplied are pods in which an error or a warning names the items of another list, or a text that is long itself.
var multiplied = []string{
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"},"spec":{"automountServiceAccountToken":false,"resourceClaims":[<<{"name":"n%d","resourceClaimName":"a"}>>],"containers":[{"name":"c","image":"i","resources":{"claims":[<<{"name":"m%d"}>>]}}]}}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"},"spec":{"automountServiceAccountToken":false,"volumes":[{"name":"v","configMap":{"name":"c","items":[<<{"key":"k","path":"` + strings.Repeat("a", 2000) + `"}>>]}}],"containers":[{"name":"c","image":"i"}]}}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"},"spec":{"automountServiceAccountToken":false,"containers":[{"name":"c","image":"i","ports":[<<{"containerPort":%d}>>],"volumeMounts":[<<{"name":"v%d","mountPath":"/m%d"}>>]}]}}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"},"spec":{"automountServiceAccountToken":false,"containers":[{"name":"c","image":"i"}],"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"k","labelSelector":{},"matchLabelKeys":[<<"a%d">>],"mismatchLabelKeys":[<<"b%d">>]}]}}}}`,
	`{"apiVersion":"v1","kind":"Service","metadata":{"name":"NAME"},"spec":{"type":"NodePort","ports":[<<{"name":"p%d","port":%d}>>]}}`,
	`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"NAME"},"spec":{"serviceName":"s","selector":{"matchLabels":{"a":"b"}},"volumeClaimTemplates":[<<{}>>],"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
}

// longKey is an RSA key in PEM whose primes have that many bits. They are no primes, and what could be computed of them is not there.
func longKey(rng *rand.Rand, bits int) string {
	number := func() *big.Int {
		words := make([]big.Word, bits/64+1)
		for i := range words {
			words[i] = big.Word(rng.Uint64())
		}
		n := new(big.Int).SetBits(words)
		return n.SetBit(n, 0, 1)
	}
	p, q := number(), number()
	der, err := asn1.Marshal(struct {
		Version int
		N       *big.Int
		E       int
		D, P, Q *big.Int
	}{0, new(big.Int).Mul(p, q), 65537, number(), p, q})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: der}))
}

// longRequest returns a signing request, as an object has it, with the public half of a key in PEM and a signature of its length.
func longRequest(key string) string {
	block, _ := pem.Decode([]byte(key))
	var private struct {
		Version int
		N       *big.Int
		E       int
		Rest    []asn1.RawValue `asn1:"optional"`
	}
	// Of the numbers, only the first ones are needed; the others make the sequence longer than the structure.
	asn1.Unmarshal(block.Bytes, &private)
	if private.N == nil {
		private.N = big.NewInt(1)
	}
	algorithm := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, Parameters: asn1.NullRawValue}
	signed := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, Parameters: asn1.NullRawValue}
	public, err := asn1.Marshal(struct {
		N *big.Int
		E int
	}{private.N, 65537})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	bits := func(b []byte) asn1.BitString { return asn1.BitString{Bytes: b, BitLength: 8 * len(b)} }
	type info struct {
		Version   int
		Subject   asn1.RawValue
		PublicKey struct {
			Algorithm pkix.AlgorithmIdentifier
			Key       asn1.BitString
		}
		Attributes []asn1.RawValue `asn1:"tag:0"`
	}
	i := info{Subject: asn1.RawValue{FullBytes: []byte{0x30, 0}}}
	i.PublicKey.Algorithm, i.PublicKey.Key = algorithm, bits(public)
	der, err := asn1.Marshal(struct {
		Info      info
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{i, signed, bits(private.N.Bytes())})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// keys sends Secrets and signing requests with keys that take very long to check.
func keys(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	certificate, err := os.ReadFile(filepath.Join(a.server.dir, "pki", "ca.crt"))
	if err != nil {
		return
	}
	crowd(rng, 1+m.Size/20, func(i int, rng *rand.Rand) {
		c := client(a, m.Actor, attackersAddress, true)
		defer c.CloseIdleConnections()
		for n := 0; ctx.Err() == nil; n++ {
			key := longKey(rng, pick(rng, 3000, 10_000, 50_000, 200_000))
			body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/tls","metadata":{"name":"keys%d-%d"},"data":{"tls.crt":%q,"tls.key":%q}}`,
				i, n%10, base64.StdEncoding.EncodeToString(certificate), base64.StdEncoding.EncodeToString([]byte(key)))
			hit(ctx, a, c, m.Actor, "POST", "/api/v1/namespaces/arena/secrets?dryRun=All", []byte(body))
			hit(ctx, a, c, m.Actor, "POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests?dryRun=All", fmt.Appendf(nil,
				`{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"keys%d"},"spec":{"signerName":"a.b/c","usages":["client auth"],"request":%q}}`, i, longRequest(key)))
		}
	})
}

// foreignOwners makes objects that name objects of another namespace as owners, while an administrator deletes those in the foreground.
func foreignOwners(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	const theirs, ours = "/api/v1/namespaces/ordinary/configmaps", "/api/v1/namespaces/arena/configmaps"
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	for n := 0; ctx.Err() == nil && n < 1+m.Size/10; n++ {
		name := fmt.Sprintf("owner-%d-%d", m.Seed%1000, n)
		text, err := a.ask(ctx, "POST", theirs, fmt.Sprintf(`{"metadata":{"name":%q}}`, name), 201)
		var owner struct{ Metadata struct{ UID string } }
		if err != nil || json.Unmarshal(text, &owner) != nil {
			pause(ctx, time.Second)
			continue
		}
		for i := range 1 + m.Size/5 {
			reference := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"blockOwnerDeletion":true,"controller":%t}`, pick(rng, "v1", "nope.io/v1", "example.com/v9", "apps/v1", "attack.example/v1"),
				pick(rng, "ConfigMap", "X", "Target", "Namespace", "Node"), pick(rng, name, "another"), owner.Metadata.UID, chance(rng, 2))
			hit(ctx, a, c, m.Actor, "POST", ours, fmt.Appendf(nil, `{"metadata":{"name":"%s-%d","ownerReferences":[%s]}}`, name, i, reference))
		}
		// A dependent of its own, which goes first.
		a.ask(ctx, "POST", theirs, fmt.Sprintf(`{"metadata":{"name":"%s-own","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":%[1]q,"uid":%[2]q,"blockOwnerDeletion":true}]}}`, name, owner.Metadata.UID), 201)
		pause(ctx, 2*time.Second) // until the collector knows them
		if _, err := a.ask(ctx, "DELETE", theirs+"/"+name, `{"propagationPolicy":"Foreground"}`, 200); err != nil {
			continue
		}
		if !a.isGone(ctx, theirs+"/"+name) {
			a.found("owners", theirs+"/"+name+" is not deleted: objects of another namespace hold it up")
		}
	}
}

// isGone waits until an object is gone; false if that takes as long as an ordinary request may. It is true if ctx ends.
func (a *arena) isGone(ctx context.Context, path string) bool {
	limited, cancel := a.server.clock.patience(ctx, a.o.patience)
	defer cancel()
	for limited.Err() == nil {
		if r, err := send(limited, a.admin, "GET", path, nil); err == nil && r.code == 404 {
			return true
		}
		pause(limited, 100*time.Millisecond)
	}
	return ctx.Err() != nil
}
