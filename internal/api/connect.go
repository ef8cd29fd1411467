package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/api/connect"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file answers requests that upstream forwards to nodes, pods and the pods of services. No node
// runs pods here, so that all of them are refused, as upstream refuses them if nothing runs. Admission
// decides first.

// connector is a subresource that forwards requests.
type connector struct {
	methods  []string // that the route knows
	subpaths bool     // the path may go on
	streams  bool     // clients need the permission to create, even if they connect with GET
	refuse   func(q *request) error
	options  *connect.Options // that admission sees; nil: the request is a read and not admitted
}

var (
	streamMethods = []string{http.MethodGet, http.MethodPost} // GET for WebSockets, POST for SPDY
	proxyMethods  = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions}
)

// connectors are by plural and subresource, in the core group.
var connectors = map[string]connector{
	"pods/attach":      {methods: streamMethods, streams: true, refuse: (*request).podDoesNotRun, options: connect.Attach},
	"pods/exec":        {methods: streamMethods, streams: true, refuse: (*request).podDoesNotRun, options: connect.Exec},
	"pods/portforward": {methods: streamMethods, streams: true, refuse: (*request).podDoesNotRun, options: connect.PortForward},
	"pods/log":         {methods: []string{http.MethodGet}, refuse: (*request).podDoesNotRun},
	"pods/proxy":       {methods: proxyMethods, subpaths: true, refuse: (*request).podDoesNotRun, options: connect.PodProxy},
	"services/proxy":   {methods: proxyMethods, subpaths: true, refuse: (*request).serviceHasNoEndpoints, options: connect.ServiceProxy},
	"nodes/proxy":      {methods: proxyMethods, subpaths: true, refuse: (*request).nodeDoesNotRun, options: connect.NodeProxy},
}

// connector returns the connector that the path names, nil if there is none.
func (in *info) connector() *connector {
	if in.group != "" || in.subresource == "" {
		return nil
	}
	if c, ok := connectors[in.plural+"/"+in.subresource]; ok {
		return &c
	}
	return nil
}

// connect refuses a request to connect.
func (q *request) connect(c *connector) error {
	if c.options != nil {
		if q.query.Has("dryRun") {
			return status.BadRequest("dryRun is not supported")
		}
		if err := q.admitConnection(c.options); err != nil {
			return err
		}
	}
	if c.streams && q.verb != "create" {
		if err := q.MayCreate(); err != nil {
			return err
		}
	}
	return c.refuse(q)
}

// admitConnection passes a request to connect through admission. Webhooks and policies see its options.
func (q *request) admitConnection(kind *connect.Options) error {
	gvk := q.v.GVK().GroupVersion().WithKind(kind.Kind)
	segments := 5 // api, version, resource, name and subresource
	if q.namespace != "" {
		segments += 2
	}
	options, err := kind.Read(q.query, connect.ProxyPath(q.path, segments))
	if err != nil {
		return status.BadRequest("%v", err)
	}
	d := jsondoc.Get()
	defer d.Release()
	setType := func() {
		d.Set(d.NewString(gvk.Kind), "kind")
		d.Set(d.NewString(gvk.Version), "apiVersion")
	}
	if err := replace(d, options); err != nil {
		return err
	}
	setType()
	r := &admission.Request{
		Operation: admission.Connect, Version: q.v, Subresource: q.subresource, Namespace: q.namespace, Name: q.name, Named: true,
		New: d, User: q.user, Client: q,
		Foreign: &admission.Foreign{
			Kind: gvk,
			Take: func(d *jsondoc.Doc, text []byte) error {
				options, err := kind.Parse(text)
				if err != nil {
					return status.BadRequest("%v", err)
				}
				err = replace(d, options)
				setType()
				return err
			},
		},
	}
	if err := q.h.Objects.Chain().Mutate(q.ctx, r); err != nil {
		return err
	}
	return q.h.Objects.Chain().Validate(q.ctx, r)
}

// podDoesNotRun returns the error for a pod that cannot be reached.
func (q *request) podDoesNotRun() error {
	name, err := q.proxied("pod")
	if err != nil {
		return err
	}
	var node string
	if err := q.readStored(name, func(pod jsondoc.Value) { node = strings.Clone(pod.At("spec", "nodeName").Text()) }); err != nil {
		return err
	}
	if node == "" {
		return status.BadRequest("pod %s does not have a host assigned", name)
	}
	return status.BadRequest("pod %s does not run: this server keeps pods, no node runs them", name)
}

// nodeDoesNotRun returns the error for a node that cannot be reached.
func (q *request) nodeDoesNotRun() error {
	name, err := q.proxied("node")
	if err != nil {
		return err
	}
	if err := q.readStored(name, func(jsondoc.Value) {}); err != nil {
		return err
	}
	return status.BadRequest("node %s does not run: this server keeps nodes, it does not connect to them", name)
}

// serviceHasNoEndpoints returns the error for a service that cannot be reached. Upstream does not
// read the Service unless the request names a port by its number.
func (q *request) serviceHasNoEndpoints() error {
	_, name, port, ok := utilnet.SplitSchemeNamePort(q.name)
	if !ok {
		return status.BadRequest("invalid service request %q", q.name)
	}
	if number, err := strconv.ParseInt(port, 10, 64); err == nil {
		found := false
		err := q.readStored(name, func(service jsondoc.Value) {
			for _, p := range service.At("spec", "ports").Items() {
				found = found || p.Get("port").Int() == number
			}
		})
		switch {
		case err != nil:
			return err
		case !found:
			return status.Unavailable(fmt.Sprintf("no service port %d found for service %q", number, name))
		}
	}
	return status.Unavailable(fmt.Sprintf("no endpoints available for service %q", name))
}

// proxied returns the name of the object. For the subresource proxy, the path may also have a scheme
// and a port: scheme:name:port.
func (q *request) proxied(what string) (string, error) {
	if q.subresource != "proxy" {
		return q.name, nil
	}
	_, name, _, ok := utilnet.SplitSchemeNamePort(q.name)
	if !ok {
		return "", status.BadRequest("invalid %s request %q", what, q.name)
	}
	return name, nil
}

// readStored calls read with the newest state of an object of the request's kind.
func (q *request) readStored(name string, read func(jsondoc.Value)) error {
	if err := q.awaitVersion(""); err != nil {
		return err
	}
	obj, ok := q.res.Get(q.kind.Key(q.namespace, name))
	if !ok {
		return status.NotFound(q.kind.GroupResource(), name)
	}
	view, err := obj.View(q.v)
	if err != nil {
		return err
	}
	d := jsondoc.Get()
	defer d.Release()
	if err := jsondoc.Parse(d, view.JSON); err != nil {
		return err
	}
	read(d.Root())
	return nil
}
