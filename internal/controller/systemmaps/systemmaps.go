// Package systemmaps keeps the config maps of kube-system that tell other programs about the server:
// how it authenticates requests, and since when it records the use of tokens in Secrets.
//
// A program that serves an API of its own behind the server reads the first one, and so accepts the
// certificates of the server's clients and the headers of its front proxies (delegated
// authentication). Several servers may share a store: each adds its own authorities, headers and
// names to those that are there, and removes expired certificates. The server itself never reads
// the config maps to decide anything.
//
// [Controller.Run] is the function to call.
package systemmaps

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/controller/trust"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// The names of the config maps.
const (
	Authentication = "extension-apiserver-authentication"
	TokenTracking  = "kube-apiserver-legacy-service-account-token-tracking"
)

// Name is the name of this controller in the log. kube-apiserver has two for its work.
const Name = "system-config-maps"

const (
	recheck  = time.Minute      // between two looks at the server's authorities, which may have changed
	recreate = 30 * time.Minute // between two creations of the map of tokens: older servers may delete it
	limit    = 256              // of the entries of a list; a longer one is replaced by the server's own
	since    = "since"          // the key with the day since which the use of tokens is recorded
)

// Settings is how a server authenticates requests.
type Settings struct {
	ClientCA string // PEM: the authorities of client certificates

	// ProxyCA has the authorities of front proxies in PEM. If it is empty, the other fields have no
	// meaning.
	ProxyCA                                                     string
	UserHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes, Names []string
}

// API is the part of the API that the controller calls, as a client would.
type API interface {
	// Ensure creates an object from its JSON unless it exists.
	Ensure(ctx context.Context, k *kind.Kind, namespace, name string, body []byte) error
	// Modify changes an object. It returns the errors of fn unchanged.
	Modify(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error
}

// Controller keeps the config maps. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	API    API
	Logger *slog.Logger
	Own    func() Settings  // of this server, which may change
	Now    func() time.Time // nil: time.Now

	loop    loop.Loop // due are the config maps
	maps    *kind.Kind
	created time.Time // of the map of tokens, by this controller; zero if it has not been created
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	if c.maps = c.Kinds.Load().Lookup("", "configmaps"); c.maps == nil {
		return
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.loop = loop.Loop{Cache: c.Cache, Store: c.Store, Logger: c.Logger, Name: Name, List: []string{c.key("")}, Begin: c.begin, See: c.see, Work: c.work, Now: c.Now}
	c.loop.Run(ctx)
}

// key returns the key of a config map.
func (c *Controller) key(name string) string { return c.maps.Key(metav1.NamespaceSystem, name) }

// begin schedules both config maps.
func (c *Controller) begin() {
	c.loop.Add(c.key(Authentication))
	c.loop.Add(c.key(TokenTracking))
}

// see schedules a config map that changed.
func (c *Controller) see(e *loop.Change) {
	if e.Key == c.key(Authentication) || e.Key == c.key(TokenTracking) {
		c.loop.Add(e.Key)
	}
}

// work makes sure that one config map is as it should be.
func (c *Controller) work(ctx context.Context, key string) error {
	if key == c.key(TokenTracking) {
		return c.track(ctx, key)
	}
	own := c.Own()
	err := c.keep(ctx, key, func(have map[string]string) map[string]string { return own.join(have, c.Now()) })
	if err == nil {
		c.loop.By(key, c.Now().Add(recheck))
	}
	return err
}

// track keeps the day since which the use of tokens is recorded.
func (c *Controller) track(ctx context.Context, key string) error {
	now := c.Now()
	return c.keep(ctx, key, func(have map[string]string) map[string]string {
		_, err := time.Parse(time.DateOnly, have[since])
		switch {
		case err == nil:
			return have
		case have != nil:
			have = maps.Clone(have)
			have[since] = now.UTC().Format(time.DateOnly)
			return have
		case !c.created.IsZero() && now.Before(c.created.Add(recreate)):
			c.loop.By(key, c.created.Add(recreate))
			return nil
		}
		c.created = now
		return map[string]string{since: now.UTC().Format(time.DateOnly)}
	})
}

// keep writes the data that want returns for the present data, unless they are equal. The present data
// are nil if the config map does not exist.
func (c *Controller) keep(ctx context.Context, key string, want func(have map[string]string) map[string]string) error {
	have, err := loop.Load(ctx, c.Store, c.maps, key)
	if err != nil {
		return err
	}
	_, name := loop.Place(c.maps, key)
	if have == nil {
		data := want(nil)
		if data == nil {
			return nil
		}
		body, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": data})
		if err != nil {
			return err
		}
		return c.API.Ensure(ctx, c.maps, metav1.NamespaceSystem, name, body)
	}
	defer have.Doc.Release()
	if data := dataOf(have.Doc); maps.Equal(data, want(data)) {
		return nil
	}
	return loop.UnlessGone(c.API.Modify(ctx, c.maps, metav1.NamespaceSystem, name, func(o meta.Object) error {
		data := want(dataOf(o.Doc))
		o.Doc.Remove("data")
		for _, k := range slices.Sorted(maps.Keys(data)) {
			o.Doc.Set(o.Doc.NewString(data[k]), "data", k)
		}
		return nil
	}))
}

// dataOf returns the data of a config map, which is never nil.
func dataOf(d *jsondoc.Doc) map[string]string {
	data := map[string]string{}
	for name, v := range d.Root().Get("data").Members() {
		data[strings.Clone(name)] = strings.Clone(v.Text())
	}
	return data
}

// The keys of the first config map.
const (
	clientCA      = "client-ca-file"
	proxyCA       = "requestheader-client-ca-file"
	userHeaders   = "requestheader-username-headers"
	uidHeaders    = "requestheader-uid-headers"
	groupHeaders  = "requestheader-group-headers"
	extraPrefixes = "requestheader-extra-headers-prefix"
	allowedNames  = "requestheader-allowed-names"
)

// join returns the data of the first config map: these settings after those of other servers.
func (s *Settings) join(have map[string]string, now time.Time) map[string]string {
	data := map[string]string{}
	if text := certificates(have[clientCA], s.ClientCA, now); text != "" {
		data[clientCA] = text
	}
	text := certificates(have[proxyCA], s.ProxyCA, now)
	if text == "" {
		return data
	}
	data[proxyCA] = text
	if s.ProxyCA == "" {
		s = &Settings{} // the headers are those of other servers
	}
	for key, own := range map[string][]string{userHeaders: s.UserHeaders, uidHeaders: s.UIDHeaders, groupHeaders: s.GroupHeaders,
		extraPrefixes: s.ExtraPrefixes, allowedNames: s.Names} {
		if list := list(have[key], own); len(list) > 0 || key != uidHeaders {
			text, err := json.Marshal(list)
			if err != nil {
				panic("BUG: strings do not marshal: " + err.Error())
			}
			data[key] = string(text)
		}
	}
	return data
}

// certificates returns the certificates in two PEM texts that have not expired, each once.
func certificates(have, own string, now time.Time) string {
	all := trust.Certificates(have+"\n"+own, now)
	if len(all) > limit {
		all = trust.Certificates(own, now)
	}
	return strings.Join(all, "")
}

// list returns the items of a list in JSON and those of another list, each once. A malformed list
// is empty.
func list(have string, own []string) []string {
	var read []string
	if json.Unmarshal([]byte(have), &read) != nil || len(read) > limit {
		read = nil
	}
	all := []string{}
	for _, item := range slices.Concat(read, own) {
		if !slices.Contains(all, item) {
			all = append(all, item)
		}
	}
	return all
}
