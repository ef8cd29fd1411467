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

// This file caches the users of tokens.

// SuccessTTL is the time for which a server caches the user of a token, as upstream.
const SuccessTTL = 10 * time.Second

// fetchTimeout bounds one authentication, for which several requests may wait.
const fetchTimeout = 30 * time.Second

// maxCached is the number of cached tokens. If more arrive within the lifetime of entries, those
// beyond it are authenticated for each request.
const maxCached = 16384

// CacheOptions configure a cache of tokens.
type CacheOptions struct {
	Success time.Duration // how long users are cached; 0: not at all
	Failure time.Duration // how long unknown tokens are cached; 0: not at all
	Errors  bool          // Failure also applies to tokens that are refused with an error
	Metrics *Metrics      // nil: not measured
}

// Cache caches the answers of tokens. It stores keyed hashes, from which the tokens cannot be
// recovered. Concurrent requests with the same token wait for one
// answer.
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

// tokenKey is a keyed hash of a token: the cache keeps no tokens.
type tokenKey [sha256.Size]byte

// cached is a result with its end of life.
type cached struct {
	response *Response
	err      error
	until    time.Time
}

// fetch is an authentication in progress.
type fetch struct {
	done chan struct{}
	cached
}

// cache has the results of other authenticators for some time.
type cache struct {
	CacheOptions
	tokens Token
	hashes sync.Pool

	mu      sync.RWMutex
	known   map[tokenKey]*cached
	fetches map[tokenKey]*fetch
	swept   time.Time
}

// key returns the cache key of a token and the audiences.
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

// fetch starts an authentication, or returns the one in progress.
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
	// The authentication goes on if the request that started it ends, because others may wait for
	// it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	go func() {
		defer cancel()
		answered := c.Metrics.fetching()
		f.response, f.err = c.authenticate(ctx, token, audiences)
		if failed := f.err; isUnknown(failed) {
			answered(nil)
		} else {
			answered(failed)
		}
		c.finish(key, f)
	}()
	return f
}

// authenticate calls the authenticator, and turns a panic into an error.
func (c *cache) authenticate(ctx context.Context, token string, audiences []string) (r *Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = nil, fmt.Errorf("authentication failed unexpectedly: %v", p)
		}
	}()
	return c.tokens.AuthenticateToken(ctx, token, audiences)
}

// finish caches the answer and wakes the requests that wait for it.
func (c *cache) finish(key tokenKey, f *fetch) {
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

// sweep removes expired entries, at most once in a lifetime.
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

// ForAnyAudience adapts tokens without audiences: they are valid for the API's audiences, and no
// others.
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

// Intersect returns the elements of a that are in b.
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
