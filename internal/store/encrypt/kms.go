package encrypt

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
)

// This file is the provider kms, version 2 (KEP-3299).
//
// The plugin encrypts one random seed. Each value has a key of its own, which is derived from the seed and 32 random bytes by HKDF
// (RFC 5869), so that the plugin is not asked for each write. The value carries the encrypted seed, and the plugin decrypts it for
// who reads it first. The plugin names its key; when the name changes, the next seed is made.

const (
	seedSize = 32
	infoSize = 32

	asksHealthy   = time.Minute      // how often a healthy plugin is asked for its state
	asksUnhealthy = 10 * time.Second // and one that is not
	goodFor       = 3 * time.Minute  // how long a seed writes after the plugin was healthy last

	maxKeyID       = 1 << 10
	maxSeed        = 1 << 10 // of an encrypted seed
	maxAnnotations = 32 << 10

	// maxSeeds bounds the decrypted seeds that are kept. There is one for each start of a server and each key of the plugin.
	maxSeeds = 1024
)

// PluginOptions are common to all KMS plugins.
type PluginOptions struct {
	Logger *slog.Logger
	Dial   Dial // nil refuses configurations with plugins
}

// plugin is a KMS plugin.
type plugin struct {
	name    string
	prefix  string
	timeout time.Duration
	logger  *slog.Logger
	client  Plugin
	now     func() time.Time
	end     context.CancelFunc
	done    chan struct{}
	closing sync.Once

	current atomic.Pointer[seed]
	asking  sync.Mutex // one question for the state at a time
	failure atomic.Pointer[error]

	mu    sync.Mutex
	seeds map[string][]byte // decrypted, by the fields of envelopes that identify them
}

// seed is what values are encrypted with now.
type seed struct {
	plain   []byte
	sealed  string // prefix and key, see store.Item.Sealed
	part    []byte // of the envelopes: key, encrypted seed, annotations, type
	keyID   string
	expires time.Time
}

// newPlugin connects to a plugin, and asks for its state until it is closed.
func newPlugin(ctx context.Context, c *KMSConfiguration, o PluginOptions) (*plugin, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("could not configure KMSv2-Plugin's probe %q, error: %w", c.Name, err)
	}
	if o.Dial == nil {
		return nil, fmt.Errorf("could not configure KMSv2-Plugin %q: this program has no client for KMS plugins: server.Config.KMS is nil; etcd.Use, of package server/etcd, sets it", c.Name)
	}
	client, err := o.Dial(u.Path)
	if err != nil {
		return nil, fmt.Errorf("could not configure KMSv2-Plugin's probe %q, error: %w", c.Name, err)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	p := &plugin{name: c.Name, prefix: marker + "kms:v2:" + c.Name + ":", timeout: c.Timeout.Duration, logger: o.Logger,
		client: client, now: time.Now, end: end, done: make(chan struct{}), seeds: map[string][]byte{}}
	p.refresh(ctx)
	go p.run(life)
	return p, nil
}

// close stops the checks and disconnects from the plugin.
func (p *plugin) close() (err error) {
	p.closing.Do(func() {
		p.end()
		<-p.done
		err = p.client.Close()
	})
	return err
}

// run asks for the state of the plugin in intervals.
func (p *plugin) run(ctx context.Context) {
	defer close(p.done)
	for {
		every := asksHealthy
		if p.health() != nil {
			every = asksUnhealthy
		}
		t := time.NewTimer(every)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		p.refresh(ctx)
	}
}

// health returns the outcome of the last question.
func (p *plugin) health() error {
	if err := p.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// refresh asks the plugin for its state, and makes a new seed if its key has changed.
func (p *plugin) refresh(ctx context.Context) {
	p.asking.Lock()
	defer p.asking.Unlock()
	err := p.renew(ctx)
	if err == nil {
		p.failure.Store(nil)
		return
	}
	if before := p.health(); before == nil || before.Error() != err.Error() {
		p.logger.Error("a KMS plugin is not healthy", "plugin", p.name, "error", err)
	}
	p.failure.Store(&err)
}

// renew gets the plugin's status, and makes a new seed if the plugin has a new key.
func (p *plugin) renew(ctx context.Context) error {
	expires := p.now().Add(goodFor)
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	state, err := p.client.Status(limited)
	if err != nil {
		return fmt.Errorf("failed to perform status section of the healthz check for KMS Provider %s, error: %w", p.name, err)
	}
	switch {
	case state.Healthz != "ok":
		return fmt.Errorf("got unexpected healthz status: %s", state.Healthz)
	case state.Version != "v2" && state.Version != "v2beta1":
		return fmt.Errorf("expected KMSv2 API version v2, got %s", state.Version)
	}
	if err := checkKeyID(state.KeyID); err != nil {
		return fmt.Errorf("got invalid KMSv2 KeyID hash %q: %w", hashOf(state.KeyID), err)
	}
	if now := p.current.Load(); now != nil && now.keyID == state.KeyID {
		next := *now
		next.expires = expires
		p.current.Store(&next)
		return nil
	}
	next, err := p.newSeed(ctx)
	if err != nil {
		return fmt.Errorf("failed to rotate DEK: %w", err)
	}
	if next.keyID != state.KeyID {
		return fmt.Errorf("failed to rotate DEK: the plugin's state names the key with hash %q, but it encrypted with %q", hashOf(state.KeyID), hashOf(next.keyID))
	}
	next.expires = expires
	p.current.Store(next)
	return nil
}

// newSeed makes a seed that the plugin has encrypted.
func (p *plugin) newSeed(ctx context.Context) (*seed, error) {
	plain := make([]byte, seedSize)
	rand.Read(plain) // it never fails
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	r, err := p.client.Encrypt(limited, string(uuid.NewUUID()), plain)
	if err != nil {
		return nil, fmt.Errorf("failed to encrypt DEK, error: %w", err)
	}
	e := envelope{data: []byte{0}, keyID: r.KeyID, seed: r.Text, annotations: r.Annotations, derived: true}
	if err := e.check(); err != nil {
		return nil, err
	}
	s := &seed{plain: plain, sealed: p.prefix + r.KeyID, part: e.appendIdentity(nil), keyID: r.KeyID}
	p.remember(string(s.part), plain)
	return s, nil
}

// remember keeps a decrypted seed. When there are too many, one that was met by chance goes.
func (p *plugin) remember(part string, plain []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seeds) >= maxSeeds {
		for k := range p.seeds {
			delete(p.seeds, k)
			break
		}
	}
	p.seeds[part] = plain
}

// hashOf stands for a key's name in messages.
func hashOf(keyID string) string {
	if keyID == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(keyID))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// seals returns the prefix of new values, which has the name of the plugin.
func (p *plugin) seals() string {
	if s := p.current.Load(); s != nil {
		return s.sealed
	}
	return p.prefix
}

// seal encrypts a value with a key that is derived from the current seed. It does not call the
// plugin.
func (p *plugin) seal(_ context.Context, bound, plain []byte) ([]byte, error) {
	s := p.current.Load()
	if s == nil {
		err := p.health()
		if err == nil {
			err = errors.New("it has not answered yet")
		}
		return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, p.name, err)
	}
	if now := p.now(); now.After(s.expires) {
		return nil, fmt.Errorf("%w: encryptedDEKSource with keyID hash %q expired at %s (current time is %s)", ErrUnavailable, hashOf(s.keyID),
			s.expires.Format(time.RFC3339), now.Format(time.RFC3339))
	}
	info := random(make([]byte, 0, infoSize+len(plain)+64), infoSize)
	c, err := derive(s.plain, info)
	if err != nil {
		return nil, err
	}
	data := c.seal(info, bound, plain)
	dst := make([]byte, len(p.prefix), len(p.prefix)+len(data)+len(s.part)+16)
	copy(dst, p.prefix)
	return append(appendField(dst, fieldData, data), s.part...), nil
}

// derive returns the cipher of one value.
func derive(seed, info []byte) (sealer, error) {
	key, err := hkdf.Expand(sha256.New, seed, string(info), 32)
	if err != nil {
		return nil, err
	}
	return newGCM(key)
}

// open decrypts a value. It calls the plugin if the seed is not among those that were decrypted
// before.
func (p *plugin) open(ctx context.Context, bound, value []byte) ([]byte, string, error) {
	if !bytes.HasPrefix(value, []byte(p.prefix)) {
		return nil, "", errOtherProvider
	}
	e, err := parseEnvelope(value[len(p.prefix):])
	if err != nil {
		return nil, "", err
	}
	key, err := p.unseal(ctx, e)
	if err != nil {
		return nil, "", err
	}
	var c sealer
	data := e.data
	switch {
	case !e.derived:
		c, err = newGCM(key)
	case len(data) < infoSize:
		return nil, "", errShort
	default:
		c, err = derive(key, data[:infoSize])
		data = data[infoSize:]
	}
	if err != nil {
		return nil, "", err
	}
	plain, err := c.open(bound, data)
	sealed := p.prefix + e.keyID
	if !e.derived {
		sealed += " (key of one server)" // such values are written again
	}
	return plain, sealed, err
}

// unseal returns the decrypted seed, or key, of an envelope.
func (p *plugin) unseal(ctx context.Context, e *envelope) ([]byte, error) {
	part := string(e.appendIdentity(nil))
	p.mu.Lock()
	known, ok := p.seeds[part]
	p.mu.Unlock()
	if ok {
		return known, nil
	}
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	plain, err := p.client.Decrypt(limited, string(uuid.NewUUID()), &Sealed{Text: e.seed, KeyID: e.keyID, Annotations: e.annotations})
	var failed *PluginError
	switch {
	case err == nil:
	case errors.As(err, &failed) && failed.Unreachable:
		return nil, fmt.Errorf("%w: %s: failed to decrypt DEK, error: %w", ErrUnavailable, p.name, err)
	default:
		return nil, fmt.Errorf("failed to decrypt DEK, error: %w", err)
	}
	if e.derived && len(plain) < seedSize {
		return nil, fmt.Errorf("invalid seed length %d used for key generation", len(plain))
	}
	p.remember(part, plain)
	return plain, nil
}

// checkKeyID refuses an ID that a plugin must not return: empty, or longer than 1 KiB.
func checkKeyID(id string) error {
	switch {
	case id == "":
		return errors.New("keyID is empty")
	case len(id) > maxKeyID:
		return fmt.Errorf("keyID is %d bytes, which exceeds the max size of %d", len(id), maxKeyID)
	}
	return nil
}

// check holds an envelope to the bounds of its parts.
func (e *envelope) check() error {
	switch {
	case len(e.data) == 0:
		return errors.New("encrypted data is empty")
	case len(e.seed) == 0:
		return errors.New("failed to validate encrypted DEK source: encrypted DEK source is empty")
	case len(e.seed) > maxSeed:
		return fmt.Errorf("failed to validate encrypted DEK source: encrypted DEK source is %d bytes, which exceeds the max size of %d", len(e.seed), maxSeed)
	}
	if err := checkKeyID(e.keyID); err != nil {
		return fmt.Errorf("failed to validate key id: %w", err)
	}
	size := 0
	for _, k := range slices.Sorted(maps.Keys(e.annotations)) {
		size += len(k) + len(e.annotations[k])
		if wrong := validation.IsDNS1123Subdomain(k); len(wrong) > 0 || !strings.Contains(k, ".") {
			return fmt.Errorf("failed to validate annotations: %q is not a fully qualified domain name", k)
		}
	}
	if size > maxAnnotations {
		return fmt.Errorf("failed to validate annotations: total size of annotations is %d, which exceeds the max size of %d", size, maxAnnotations)
	}
	return nil
}
