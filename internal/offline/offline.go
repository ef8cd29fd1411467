// Package offline is the server's verdict without a server to start.
//
// # Model
//
// A [Server] is the product's own server, package server, in this process: its API, admission and kinds over a store in memory. It is
// told what there is ([Server.Add]: definitions, policies, bindings, roles, namespaces, parameters) and then asked: a [Request] is an
// object to create, change or delete and who does it, an [Answer] what the server answers. Requests are dry runs; after each the
// server is as it was.
//
// # Invariants
//
//   - Nothing here decides about an object. What comes of it is what the server's API answered.
//   - The objects of a request that are there already (Old, Given) are put into the store as they are: they need not be valid.
//   - Namespaces that nobody described exist and have no labels but their name.
//
// # Calls
//
// [Open], [Server.Add], [Server.Do].
package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/audit"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/server"
	"github.com/keelson-io/keelson/store/mem"
)

// Server answers requests. It is safe for concurrent use; it answers one at a time.
type Server struct {
	mu      sync.Mutex
	local   *server.Local
	store   *trial
	notes   map[string]string // the audit annotations of the last request
	ensured map[string]bool   // namespaces that exist
	roles   bool              // they decide what users may do
}

// Open opens a server that knows the built-in kinds.
func Open(ctx context.Context) (*Server, error) {
	s := &Server{store: &trial{Store: mem.New(mem.Options{})}, ensured: map[string]bool{}}
	local, err := server.OpenLocal(ctx, server.LocalConfig{
		Store: s.store, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Record: func(e *audit.Event) { s.notes = e.Annotations },
	})
	if err != nil {
		return nil, fmt.Errorf("opening the server: %w", err)
	}
	s.local = local
	return s, nil
}

// Close ends the server.
func (s *Server) Close() error { return s.local.Close() }

// Find finds the kind of an object. The error says what there is instead.
func (s *Server) Find(d manifest.Document) (*kind.Version, error) {
	h, err := headOf(d)
	if err != nil {
		return nil, err
	}
	return s.find(h)
}

func (s *Server) find(h *head) (*kind.Version, error) {
	gvk := h.GroupVersionKind()
	var others []string
	for k := range s.local.Kinds().InGroup(gvk.Group) {
		if k.Name != gvk.Kind {
			continue
		}
		if v := k.Version(gvk.Version); v != nil {
			return v, nil
		}
		for _, v := range k.Versions {
			others = append(others, v.Name)
		}
	}
	msg := fmt.Sprintf("no definition of kind %q in version %q", gvk.Kind, gvk.GroupVersion())
	if len(others) == 0 {
		return nil, &UnknownKindError{msg}
	}
	slices.Sort(others)
	return nil, &UnknownKindError{msg + "; served versions: " + strings.Join(others, ", ")}
}

// UnknownKindError says that nobody defined the kind of an object, or not in its version.
type UnknownKindError struct{ text string }

func (e *UnknownKindError) Error() string { return e.text }

// head is what an object says of itself.
type head struct {
	metav1.TypeMeta
	Namespace, Name, ResourceVersion string
}

// headOf reads an object's head, as much of it as has the right types.
func headOf(d manifest.Document) (*head, error) {
	if d.Err != nil {
		return nil, d.Err
	}
	var object struct {
		metav1.TypeMeta
		Metadata json.RawMessage
	}
	if err := json.Unmarshal(d.JSON, &object); err != nil {
		return nil, fmt.Errorf("not an object: %w", manifest.Explain(err))
	}
	h := &head{TypeMeta: object.TypeMeta}
	var metadata map[string]json.RawMessage
	if json.Unmarshal(object.Metadata, &metadata) == nil {
		for name, to := range map[string]*string{"namespace": &h.Namespace, "name": &h.Name, "resourceVersion": &h.ResourceVersion} {
			if json.Unmarshal(metadata[name], to) != nil {
				*to = ""
			}
		}
	}
	return h, nil
}

// Subject is which object a document is about, whatever version it is written in.
type Subject struct {
	schema.GroupKind
	Namespace, Name string
}

// SubjectOf is which object a document is about; the zero value if it is none. namespace is that of objects which name none.
func SubjectOf(d manifest.Document, namespace string) Subject {
	h, err := headOf(d)
	if err != nil {
		return Subject{}
	}
	return Subject{h.GroupVersionKind().GroupKind(), h.namespace(namespace), h.Name}
}

// namespace is where the object is, given where it is if it does not say so.
func (h *head) namespace(other string) string {
	switch {
	case h.Namespace != "":
		return h.Namespace
	case other != "":
		return other
	}
	return metav1.NamespaceDefault
}
