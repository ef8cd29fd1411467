package builtin

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	migrationv1 "k8s.io/api/storagemigration/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// This file finds the descriptions of definitions in the modules that define the Go types.

// documentation finds descriptions. It is made for one call of published and then dropped, so that
// a server without requests for OpenAPI documents does not hold them.
type documentation struct {
	types map[string]reflect.Type // by the name of the definition
	// generated holds the definitions that apiextensions-apiserver publishes; nil: not made yet.
	generated map[string]common.OpenAPIDefinition
}

// typeDocs holds the descriptions of a definition.
type typeDocs struct {
	texts     map[string]string // by property; the definition itself has the name ""
	listsEnum bool              // the texts list the possible values of enumerations
}

// registrations are the functions that register the Go types of a package of k8s.io/api.
var registrations = map[string]func(*runtime.Scheme) error{
	apiPrefix + "admissionregistration.v1": admissionv1.AddToScheme,
	apiPrefix + "apps.v1":                  appsv1.AddToScheme,
	apiPrefix + "authentication.v1":        authenticationv1.AddToScheme,
	apiPrefix + "authorization.v1":         authorizationv1.AddToScheme,
	apiPrefix + "autoscaling.v1":           autoscalingv1.AddToScheme,
	apiPrefix + "autoscaling.v2":           autoscalingv2.AddToScheme,
	apiPrefix + "batch.v1":                 batchv1.AddToScheme,
	apiPrefix + "certificates.v1":          certificatesv1.AddToScheme,
	apiPrefix + "coordination.v1":          coordinationv1.AddToScheme,
	apiPrefix + "core.v1":                  corev1.AddToScheme,
	apiPrefix + "discovery.v1":             discoveryv1.AddToScheme,
	apiPrefix + "events.v1":                eventsv1.AddToScheme,
	apiPrefix + "flowcontrol.v1":           flowcontrolv1.AddToScheme,
	apiPrefix + "networking.v1":            networkingv1.AddToScheme,
	apiPrefix + "node.v1":                  nodev1.AddToScheme,
	apiPrefix + "policy.v1":                policyv1.AddToScheme,
	apiPrefix + "rbac.v1":                  rbacv1.AddToScheme,
	apiPrefix + "resource.v1":              resourcev1.AddToScheme,
	apiPrefix + "scheduling.v1":            schedulingv1.AddToScheme,
	apiPrefix + "storage.v1":               storagev1.AddToScheme,
	apiPrefix + "storagemigration.v1":      migrationv1.AddToScheme,
}

// written are the descriptions that no module has, by definition.
var written = map[string]map[string]string{
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"": "IntOrString is a 32-bit integer or a string, as given."},
}

// endings complete descriptions that SwaggerDoc cuts off, by definition and property.
var endings = map[string]map[string]string{
	apiPrefix + "certificates.v1.CertificateSigningRequestStatus": {"certificate": "the PEM blocks)"},
	apiPrefix + "core.v1.PodSecurityContext": {
		"fsGroup": "for owner and group, and nothing for others.\n\nWithout it, the owner and the permissions of volumes stay. It must be unset if spec.os.name is windows.",
	},
	apiPrefix + "core.v1.TopologySpreadConstraint": {
		"maxSkew": "With MaxSkew 1 a new pod must go to the third zone; with MaxSkew 2 it may go to any. " +
			"For ScheduleAnyway it ranks topologies only. Required; at least 1.",
		"minDomains":        "Three domains are fewer than five, so the minimum counts as 0, and a new pod in any zone has a skew of 3, which is not allowed.",
		"whenUnsatisfiable": "With DoNotSchedule a new pod may go to the second or the third zone only. Required.",
	},
}

// newDocumentation returns the documentation of definitions and of all that they refer to.
func newDocumentation(roots ...string) (*documentation, error) {
	d := &documentation{types: map[string]reflect.Type{}}
	wanted := map[string][]string{}
	for _, name := range roots {
		pkg, base := cut(name)
		wanted[pkg] = append(wanted[pkg], base)
	}
	for pkg, names := range wanted {
		register := registrations[pkg]
		if register == nil {
			continue // the generated definitions describe it
		}
		s := runtime.NewScheme()
		if err := register(s); err != nil {
			return nil, fmt.Errorf("types of %s: %w", pkg, err)
		}
		known := map[string]reflect.Type{}
		for _, t := range s.AllKnownTypes() {
			known[definitionName(t)] = t
		}
		for _, name := range names {
			if t := known[pkg+"."+name]; t != nil {
				d.add(t)
			}
		}
	}
	return d, nil
}

// definitionName returns the name of the definition of a Go type.
func definitionName(t reflect.Type) string {
	return "io." + strings.NewReplacer("k8s.io/", "k8s.", "/", ".").Replace(t.PkgPath()) + "." + t.Name()
}

// add adds a type and all types that it refers to.
func (d *documentation) add(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		d.add(t.Elem())
	case reflect.Struct:
		name := definitionName(t)
		if d.types[name] != nil {
			return
		}
		d.types[name] = t
		for i := range t.NumField() {
			d.add(t.Field(i).Type)
		}
	}
}

// of returns the descriptions of a definition.
func (d *documentation) of(name string) typeDocs {
	if all := written[name]; all != nil {
		return typeDocs{texts: all}
	}
	if strings.HasPrefix(name, apiPrefix) {
		t := d.types[name]
		if t == nil {
			return typeDocs{}
		}
		all := map[string]string{}
		addDescriptions(all, t)
		for field, end := range endings[name] {
			all[field] += end
		}
		return typeDocs{texts: all}
	}
	if d.generated == nil {
		d.generated = extensions.GetOpenAPIDefinitions(func(string) (none spec.Ref) { return none })
	}
	s := d.generated[name].Schema
	all := map[string]string{"": s.Description}
	for field, p := range s.Properties {
		all[field] = p.Description
	}
	return typeDocs{all, true}
}

// documented is a type of the API that has descriptions of its fields, by their names in JSON.
type documented interface{ SwaggerDoc() map[string]string }

// addDescriptions adds the descriptions of a Go type, and those of structs that it has inline.
func addDescriptions(to map[string]string, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && f.Type.Kind() == reflect.Struct && name == "" {
			addDescriptions(to, f.Type)
		}
	}
	delete(to, "")
	if x, ok := reflect.Zero(t).Interface().(documented); ok {
		maps.Copy(to, x.SwaggerDoc())
	}
}
