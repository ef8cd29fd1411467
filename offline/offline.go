// Package offline is the server's verdict without a server to start.
//
// # Model
//
// A [Server] is the product's own server, package server, in this process: its API, admission and
// kinds over a store in memory. It is told what there is ([Server.Add]: definitions, policies,
// bindings, roles, namespaces, parameters) and then asked: a [Request] is an object to create,
// change or delete and who does it, an [Answer] what the server answers. Requests are dry runs;
// after each the server is as it was.
//
// # Invariants
//
//   - Nothing here decides about an object. The result is the answer of the server's API, or of the
//     verb that the API calls.
//   - The objects of a request that are there already (Old, Given) are put into the store as they are: they need not be valid.
//   - Namespaces that nobody described exist and have no labels but their name.
//
// # Calls
//
// [Documents], [Open], [Server.Add], [Server.Do].
package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/nearest"
	"github.com/keelson-io/keelson/internal/store/mem"
	"github.com/keelson-io/keelson/kind"
)

// Server answers requests. It is safe for concurrent use: requests that need no other objects than those
// of [Server.Add] are answered at the same time, others one after the other.
type Server struct {
	mu      sync.RWMutex // held for writing while the store or the rules change
	parts   *parts
	store   *trial
	ensured map[string]bool // namespaces that exist
	roles   bool            // roles decide what users may do
}

// Document is an object as a file has it, with its position. [Documents] reads some.
type Document = manifest.Document

// Documents splits a text, YAML or JSON, into documents. name is the name of its file in errors. A
// document that is malformed has an error in its field Err, which the methods of Server return.
func Documents(name string, text []byte) []Document { return manifest.Split(name, text) }

// Open opens a server with the built-in kinds.
func Open(ctx context.Context) (*Server, error) {
	s := &Server{store: &trial{Store: mem.New(mem.Options{})}, ensured: map[string]bool{}}
	var err error
	if s.parts, err = assemble(ctx, s.store, slog.New(slog.DiscardHandler)); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the server: %w", err), s.store.Close())
	}
	return s, nil
}

// Close closes the server.
func (s *Server) Close() error {
	s.parts.cache.Close()
	return s.store.Close()
}

// Find returns the version of an object's kind. If it is not served, the error lists what is.
func (s *Server) Find(d Document) (*kind.Version, error) {
	h, err := headOf(d)
	if err != nil {
		return nil, err
	}
	return s.find(h)
}

func (s *Server) find(h *head) (*kind.Version, error) {
	gvk := h.GroupVersionKind()
	var others []string
	for k := range s.parts.kinds.Load().InGroup(gvk.Group) {
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
	if gvk.Kind == "" || gvk.Version == "" {
		return nil, &UnknownKindError{Foreign: !s.hasGroup(gvk.Group), Incomplete: true, text: s.incomplete(h)}
	}
	if end, ok := removedKinds[gvk]; ok {
		msg = fmt.Sprintf("%s %s was removed from Kubernetes in %s", h.APIVersion, h.Kind, end.release)
		if end.replacement != "" {
			msg += "; write apiVersion: " + end.replacement
		} else {
			msg += ", and nothing replaces it"
		}
		return nil, &UnknownKindError{Versions: others, Removed: true, text: msg}
	}
	if sub := subresourceKinds[gvk]; sub != "" {
		msg = fmt.Sprintf("%s %s is the body of a request to the subresource %s, which a server does not store; leave it out", h.APIVersion, h.Kind, sub)
		return nil, &UnknownKindError{Subresource: sub, text: msg}
	}
	if len(others) > 0 {
		slices.Sort(others)
		return nil, &UnknownKindError{Versions: others, text: msg + "; served versions: " + strings.Join(others, ", ")}
	}
	like := s.like(gvk)
	if len(like) > 0 {
		msg += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return nil, &UnknownKindError{Foreign: len(like) == 0 && !s.hasGroup(gvk.Group), text: msg}
}

// incomplete says what an object lacks that has no kind or no valid apiVersion.
func (s *Server) incomplete(h *head) string {
	switch {
	case h.Kind == "" && h.APIVersion == "":
		return "apiVersion and kind are missing: it is not an object of a server"
	case h.Kind == "":
		return fmt.Sprintf("kind is missing; apiVersion is %q", h.APIVersion)
	case h.APIVersion != "":
		return fmt.Sprintf("apiVersion is %q, want GROUP/VERSION, or v1", h.APIVersion)
	}
	msg := fmt.Sprintf("apiVersion is missing; kind is %q", h.Kind)
	if like := s.like(schema.GroupVersionKind{Kind: h.Kind}); len(like) > 0 {
		for i := range like {
			like[i], _, _ = strings.Cut(like[i], " ")
		}
		msg += "; write apiVersion: " + strings.Join(like, " or ")
	}
	return msg
}

// like returns the kinds, as group/version Kind, that an unknown kind probably stands for: those with
// the same name in other groups, otherwise those whose name or group has a typo.
func (s *Server) like(gvk schema.GroupVersionKind) []string {
	var same, near []string
	for k := range s.parts.kinds.Load().All() {
		name := k.Versions[0].APIVersion() + " " + k.Name
		switch {
		case k.Name == gvk.Kind:
			same = append(same, name)
		case k.Group == gvk.Group && nearest.Distance(k.Name, gvk.Kind) <= max(1, len(gvk.Kind)/4):
			near = append(near, name)
		}
	}
	if len(same) > 0 {
		near = same
	}
	slices.Sort(near)
	return near[:min(len(near), 3)]
}

// hasGroup reports whether a kind of the group is served. The group "" has kinds, but an object
// without an apiVersion names none.
func (s *Server) hasGroup(group string) bool {
	for range s.parts.kinds.Load().InGroup(group) {
		return group != ""
	}
	return false
}

// UnknownKindError means that no definition has the kind of an object, or its version.
type UnknownKindError struct {
	Versions []string // served versions of the kind; empty if the kind is unknown
	Removed  bool     // Kubernetes does not serve this version any more
	Foreign  bool     // no CRD has the group, and none a similar kind
	// Incomplete is set if the object has no kind, or no apiVersion that can be one.
	Incomplete bool
	// Subresource is set if objects of the kind are only sent to this subresource of others.
	Subresource string
	text        string
}

// subresourceKinds maps the kinds that Kubernetes defines for requests to a subresource to its name.
var subresourceKinds = map[schema.GroupVersionKind]string{
	{Version: "v1", Kind: "NodeProxyOptions"}:                             "proxy",
	{Version: "v1", Kind: "PodAttachOptions"}:                             "attach",
	{Version: "v1", Kind: "PodExecOptions"}:                               "exec",
	{Version: "v1", Kind: "PodPortForwardOptions"}:                        "portforward",
	{Version: "v1", Kind: "PodProxyOptions"}:                              "proxy",
	{Version: "v1", Kind: "ServiceProxyOptions"}:                          "proxy",
	{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}: "token",
	{Group: "autoscaling", Version: "v1", Kind: "Scale"}:                  "scale",
	{Group: "policy", Version: "v1", Kind: "Eviction"}:                    "eviction",
}

func (e *UnknownKindError) Error() string { return e.text }

// head has the fields that identify an object.
type head struct {
	metav1.TypeMeta
	Namespace, Name, ResourceVersion string
}

// headOf decodes these fields, as far as they have the right types.
func headOf(d Document) (*head, error) {
	if d.Err != nil {
		return nil, d.Err
	}
	if h, ok := d.Head(); ok {
		return &head{metav1.TypeMeta{APIVersion: h.APIVersion, Kind: h.Kind}, h.Namespace, h.Name, h.ResourceVersion}, nil
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

// Subject identifies an object, independent of its version.
type Subject struct {
	schema.GroupKind
	Namespace, Name string
}

// SubjectOf returns the object of a document; the zero value if the document is not an object.
// namespace is that of an object that names none.
func SubjectOf(d Document, namespace string) Subject {
	h, err := headOf(d)
	if err != nil {
		return Subject{}
	}
	return Subject{h.GroupVersionKind().GroupKind(), h.namespace(namespace), h.Name}
}

// KindOf returns the kind of a document; the zero value if the document is not an object.
func KindOf(d Document) schema.GroupVersionKind {
	h, err := headOf(d)
	if err != nil {
		return schema.GroupVersionKind{}
	}
	return h.GroupVersionKind()
}

// namespace returns the object's namespace, or other if it names none.
func (h *head) namespace(other string) string {
	switch {
	case h.Namespace != "":
		return h.Namespace
	case other != "":
		return other
	}
	return metav1.NamespaceDefault
}
