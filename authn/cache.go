package authn

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"sync"
	"time"
)

// This file remembers for a while whose a token is.

// SuccessTTL is how long a server remembers whose a token is, as upstream does.
const SuccessTTL = 10 * time.Second

// fetchTimeout limits one question that several requests may wait for.
const fetchTimeout = 30 * time.Second

// maxCached bounds how many tokens are remembered. Where more come in within
// their lifetime the rest are asked about every time.
const maxCached = 16384

// CacheOptions says what a cache of tokens remembers.
type CacheOptions struct {
	Success time.Duration // how long users are remembered; 0: not at all
	Failure time.Duration // how long it is remembered that nobody knows a token; 0: not at all
	Errors  bool          // Failure goes for tokens that are wrong, too
	Metrics *Metrics      // nil: nothing is counted
}

// Cache remembers what tokens says. Neither the tokens themselves are kept nor
// anything that tells them to whoever can read the memory alone. Requests that
// ask about the same token at the same time wait for one answer.
func Cache(tokens Token, o CacheOptions) Token {
	var secret [32]byte
	rand.Read(secret[:])
	return &cache{
		CacheOptions: o,
		tokens:       tokens,
		known:        map[tokenKey]*cached{},
		fetches:      map[tokenKey]*fetch{},
		hashes:       sync.Pool{New: func() any { return hmac.New(sha256.New, secret[:]) }},
	}
}

type tokenKey [sha256.Size]byte

type cached struct {
	response *Response
	err      error
	until    time.Time
}

// fetch is a question that has not been answered yet.
type fetch struct {
	done chan struct{}
	cached
}

type cache struct {
	CacheOptions
	tokens Token
	hashes sync.Pool

	mu      sync.RWMutex
	known   map[tokenKey]*cached
	fetches map[tokenKey]*fetch
	swept   time.Time
}

// key is what a token and the audiences are known by.
func (c *cache) key(token string, audiences []string) tokenKey {
	h := c.hashes.Get().(hash.Hash)
	h.Reset()
	text := func(s string) {
		var size [4]byte
		binary.BigEndian.PutUint32(size[:], uint32(len(s)))
		h.Write(size[:])
		io.WriteString(h, s)
	}
	text(token)
	for _, a := range audiences {
		text(a)
	}
	var key tokenKey
	h.Sum(key[:0])
	c.hashes.Put(h)
	return key
}

// AuthenticateToken implements Token.
func (c *cache) AuthenticateToken(ctx context.Context, token string, audiences []string) (*Response, error) {
	began := time.Now()
	key := c.key(token, audiences)
	c.mu.RLock()
	have := c.known[key]
	c.mu.RUnlock()
	if have != nil && began.Before(have.until) {
		c.Metrics.lookup(true, time.Since(began))
		return have.response, have.err
	}
	defer func() { c.Metrics.lookup(false, time.Since(began)) }()
	defer c.Metrics.waiting()()
	f := c.fetch(ctx, key, token, audiences)
	select {
	case <-f.done:
		return f.response, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fetch asks about a token, unless somebody does so already.
func (c *cache) fetch(ctx context.Context, key tokenKey, token string, audiences []string) *fetch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.fetches[key]; f != nil {
		return f
	}
	f := &fetch{done: make(chan struct{})}
	if have := c.known[key]; have != nil && time.Now().Before(have.until) {
		f.cached = *have
		close(f.done)
		return f
	}
	c.fetches[key] = f
	// Others may wait for the answer when the request that asked is gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	go func() {
		defer cancel()
		answered := c.Metrics.fetching()
		f.response, f.err = c.ask(ctx, token, audiences)
		answered(f.err)
		c.settle(key, f)
	}()
	return f
}

// ask asks the authenticator; a panic of it is an error.
func (c *cache) ask(ctx context.Context, token string, audiences []string) (r *Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = nil, fmt.Errorf("authentication failed unexpectedly: %v", p)
		}
	}()
	return c.tokens.AuthenticateToken(ctx, token, audiences)
}

// settle tells those who wait the answer, and remembers it.
func (c *cache) settle(key tokenKey, f *fetch) {
	ttl := c.Failure
	if f.response != nil && f.err == nil {
		ttl = c.Success
	} else if f.err != nil && !c.Errors {
		ttl = 0
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.fetches, key)
	close(f.done)
	c.sweep(now, ttl)
	if ttl > 0 && len(c.known) < maxCached {
		c.known[key] = &cached{f.response, f.err, now.Add(ttl)}
	} else {
		delete(c.known, key)
	}
}

// sweep forgets what is too old, once in every lifetime.
func (c *cache) sweep(now time.Time, ttl time.Duration) {
	if now.Sub(c.swept) < max(ttl, time.Second) {
		return
	}
	c.swept = now
	for key, have := range c.known {
		if now.After(have.until) {
			delete(c.known, key)
		}
	}
}

// ForAnyAudience makes an authenticator whose tokens know no audiences one whose
// tokens are good for the audiences of the API, and only for these.
func ForAnyAudience(tokens Token, api []string) Token {
	return TokenFunc(func(ctx context.Context, token string, audiences []string) (*Response, error) {
		if len(audiences) == 0 {
			return tokens.AuthenticateToken(ctx, token, nil)
		}
		good := Intersect(api, audiences)
		if len(good) == 0 {
			return nil, nil
		}
		response, err := tokens.AuthenticateToken(ctx, token, nil)
		if response == nil || err != nil {
			return nil, err
		}
		out := *response
		out.Audiences = good
		return &out, nil
	})
}

// Intersect is what is in both lists, in the order of the first.
func Intersect(a, b []string) []string {
	var out []string
	for _, x := range a {
		for _, y := range b {
			if x == y {
				out = append(out, x)
				break
			}
		}
	}
	return out
}
