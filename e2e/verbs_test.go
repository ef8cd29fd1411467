package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/testcrds"
)

const webRoute = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: web
  labels: {app: shop}
spec:
  parentRefs:
  - name: public
  hostnames: [shop.example.com]
  rules:
  - backendRefs:
    - name: web
      port: 8080
`

// gadgetCRD is a small kind with what HTTPRoute lacks: scale, columns, selectable fields, a short name, transition rules.
const gadgetCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: gadgets.demo.example.org
spec:
  group: demo.example.org
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, shortNames: [gd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    selectableFields:
    - jsonPath: .spec.color
    additionalPrinterColumns:
    - {name: Color, type: string, jsonPath: .spec.color}
    - {name: Wanted, type: integer, jsonPath: .spec.replicas}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status', priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: A gadget is what the demonstration makes.
        properties:
          spec:
            type: object
            required: [color]
            x-kubernetes-validations:
            - rule: self.replicas <= 10 || self.color != 'red'
              messageExpression: "'not so many that are ' + self.color"
              reason: FieldValueForbidden
              fieldPath: .replicas
            properties:
              color:
                type: string
                description: Color of the gadget.
                enum: [red, green, blue]
              replicas: {type: integer, format: int32, default: 1, minimum: 0}
              serial:
                type: string
                x-kubernetes-validations:
                - rule: self == oldSelf
                  message: serial is immutable
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string}
                    count: {type: integer, default: 1}
          status:
            type: object
            properties:
              replicas: {type: integer}
              selector: {type: string}
              conditions:
                type: array
                items:
                  type: object
                  properties:
                    type: {type: string}
                    status: {type: string}
`

func gadget(name, color string) string {
	return "apiVersion: demo.example.org/v1\nkind: Gadget\nmetadata: {name: " + name + "}\nspec: {color: " + color + "}\n"
}

func TestKubectlVerbs(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	k := newKubectl(t, s)
	crd, err := testcrds.CRD(testcrds.Families()[0], "httproutes.gateway.networking.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	k.write(t, "crds.yaml", joinYAML(crd, []byte(gadgetCRD)))
	k.write(t, "route.yaml", []byte(webRoute))
	k.ok(t, args("apply --server-side -f crds.yaml"),
		"customresourcedefinition.apiextensions.k8s.io/httproutes.gateway.networking.k8s.io serverside-applied")
	k.established(t, "--all")

	t.Run("discovery", func(t *testing.T) {
		k.ok(t, args("api-resources"), "httproutes", "gateway.networking.k8s.io/v1", "gd", "namespaces", "customresourcedefinitions")
		k.ok(t, args("api-resources --api-group=demo.example.org -o wide"), "delete,deletecollection,get,list,patch,create,update,watch", "all")
		k.ok(t, args("api-versions"), "demo.example.org/v1", "gateway.networking.k8s.io/v1beta1", "v1\n")
		k.ok(t, args("get --raw /version"), `"major": "1"`, `"minor": "37"`)
		k.ok(t, args("get --raw /readyz?verbose"), "readyz check passed")
	})
	t.Run("explain", func(t *testing.T) {
		k.ok(t, args("explain gadget"), "GROUP:      demo.example.org", "KIND:       Gadget", "A gadget is what the demonstration makes.", "metadata\t<ObjectMeta>")
		k.ok(t, args("explain gadget.spec.color"), "Color of the gadget.", "ENUM:\n    red\n    green\n    blue")
		k.ok(t, args("explain httproute.spec.rules.matches.path"), "FIELD: path <Object>", "PathPrefix")
		k.ok(t, args("explain httproute --recursive"), "backendRefs\t<[]Object>")
	})
	t.Run("apply", func(t *testing.T) {
		k.ok(t, args("apply -f route.yaml"), "httproute.gateway.networking.k8s.io/web created")
		version := k.ok(t, args("get httproute web -o jsonpath={.metadata.resourceVersion}"))
		// kubectl sends the list of rules once more, because defaults were filled in there; nothing is written for it.
		k.ok(t, args("apply -f route.yaml"), "httproute.gateway.networking.k8s.io/web configured")
		if again := k.ok(t, args("get httproute web -o jsonpath={.metadata.resourceVersion}")); again != version {
			t.Errorf("applying the same again: resource version %s, before %s", again, version)
		}
		k.in(t, gadget("plain", "red"), args("apply -f -"), "created")
		k.in(t, gadget("plain", "red"), args("apply -f -"), "unchanged")
		k.ok(t, args("delete gadget plain"))
		k.in(t, strings.Replace(webRoute, "8080", "9090", 1), args("apply -f -"), "httproute.gateway.networking.k8s.io/web configured")
		k.ok(t, args("get httproute web -o jsonpath={.spec.rules[0].backendRefs[0].port}"), "9090")
	})
	t.Run("get", func(t *testing.T) { testGet(t, k) })
	t.Run("watch", func(t *testing.T) { testGetWatch(t, k) })
	t.Run("diff", func(t *testing.T) {
		k.write(t, "same.yaml", []byte(strings.Replace(webRoute, "8080", "9090", 1)))
		k.ok(t, args("diff -f same.yaml"))
		k.write(t, "other.yaml", []byte(strings.Replace(webRoute, "shop.example.com", "store.example.com", 1)))
		out, code := k.run(t, "", args("diff -f other.yaml")...)
		if code != 1 {
			t.Errorf("diff: exit code %d, want 1\n%s", code, out)
		}
		contains(t, args("diff"), out, []string{"-  - shop.example.com", "+  - store.example.com"})
	})
	t.Run("edit", func(t *testing.T) {
		editor := k.write(t, "editor", []byte("#!/bin/sh\nsed -i.bak 's/shop.example.com/edited.example.com/' \"$1\"\n"))
		k.env = append(k.env, "KUBE_EDITOR="+editor)
		k.ok(t, args("edit httproute web"), "httproute.gateway.networking.k8s.io/web edited")
		k.ok(t, args("get httproute web -o jsonpath={.spec.hostnames}"), "edited.example.com")
	})
	t.Run("patch", func(t *testing.T) { testPatch(t, k) })
	t.Run("server-side apply", func(t *testing.T) { testServerSideApply(t, k) })
	t.Run("label and annotate", func(t *testing.T) {
		k.ok(t, args("label httproute web tier=edge"), "labeled")
		k.ok(t, args("annotate httproute web note=hello"), "annotated")
		k.ok(t, args("get httproute -l tier=edge -o name"), "httproute.gateway.networking.k8s.io/web")
		k.ok(t, args("label httproute web tier-"), "unlabeled")
	})
	t.Run("scale and status", func(t *testing.T) { testScaleAndStatus(t, k) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, k) })
	t.Run("namespaces", func(t *testing.T) { testNamespaces(t, k) })
	t.Run("delete", func(t *testing.T) {
		k.ok(t, args("delete httproute web"), `"web" deleted`)
		k.fails(t, "", args("get httproute web"), `Error from server (NotFound): httproutes.gateway.networking.k8s.io "web" not found`)
		k.ok(t, args("delete gadgets --all"), "deleted")
		k.ok(t, args("get gadgets"), "No resources found in default namespace.")
	})
	t.Run("delete of a definition", func(t *testing.T) {
		k.in(t, gadget("last", "blue"), args("create -f -"))
		k.ok(t, args("delete crd gadgets.demo.example.org --timeout=20s"), "deleted")
		k.fails(t, "", args("get gadgets"), "NotFound")
		k.in(t, gadgetCRD, args("apply -f -"), "created")
		k.established(t, "gadgets.demo.example.org")
		k.ok(t, args("get gadgets"), "No resources found")
	})
}

func testGet(t *testing.T, k *kubectl) {
	k.in(t, gadget("one", "red")+"---\n"+gadget("two", "green")+"---\n"+gadget("three", "blue"), args("create -f -"), "gadget.demo.example.org/one created")
	table := k.ok(t, args("get gadgets"), "NAME    COLOR   WANTED\n", "one     red     1", "three   blue    1")
	if strings.Contains(table, "READY") {
		t.Errorf("a column of priority 1 is in the narrow table:\n%s", table)
	}
	k.ok(t, args("get gd -o wide"), "READY")
	k.ok(t, args("get all"), "two     green")
	k.ok(t, args("get httproutes"), "NAME   HOSTNAMES", `web    ["shop.example.com"]`)
	k.ok(t, args("get httproute web -o yaml"), "kind: HTTPRoute", "type: PathPrefix", "value: /", "weight: 1", "resourceVersion:", "uid:")
	k.ok(t, args("get gadgets -A --show-labels"), "NAMESPACE", "<none>")
	k.ok(t, args("get gadgets --sort-by=.spec.color -o name"), "gadget.demo.example.org/three\ngadget.demo.example.org/two\ngadget.demo.example.org/one")
	k.ok(t, args("get gadgets -o custom-columns=N:.metadata.name,C:.spec.color"), "two     green")
	if out := k.ok(t, args("get gadgets --chunk-size=1 -o name")); strings.Count(out, "\n") != 3 {
		t.Errorf("get in chunks: want 3 names, got:\n%s", out)
	}
	if out := k.ok(t, args("get gadgets --field-selector=spec.color=green -o name")); out != "gadget.demo.example.org/two\n" {
		t.Errorf("get by field: got %q", out)
	}
	if out := k.ok(t, args("get gadgets --field-selector=metadata.name=one -o name")); out != "gadget.demo.example.org/one\n" {
		t.Errorf("get by name field: got %q", out)
	}
	k.fails(t, "", args("get gadgets --field-selector=spec.replicas=1"), `field label not supported: spec.replicas`)
	k.ok(t, args("describe gadget one"), "Name:         one", "Color:     red")
	out := k.ok(t, args("get gadgets -o json"))
	var list struct {
		Kind  string
		Items []struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || list.Kind != "List" || len(list.Items) != 3 {
		t.Errorf("get -o json: %v: %s", err, out)
	}
}

func testGetWatch(t *testing.T, k *kubectl) {
	out, stop := k.follow(t, args("get gadgets -w --output-watch-events")...)
	eventually(t, "the first table", func() bool { return strings.Count(out.String(), "ADDED") == 3 })
	k.ok(t, args("patch gadget one --type=merge -p {\"spec\":{\"color\":\"blue\"}}"))
	k.in(t, gadget("four", "red"), args("create -f -"))
	k.ok(t, args("delete gadget four"))
	eventually(t, "the events", func() bool {
		o := out.String()
		return strings.Contains(o, "MODIFIED   one") && strings.Contains(o, "ADDED      four") && strings.Contains(o, "DELETED    four")
	})
	stop()
}

func testPatch(t *testing.T, k *kubectl) {
	k.ok(t, []string{"patch", "httproute", "web", "--type=merge", "-p", `{"metadata":{"annotations":{"by":"merge"}}}`}, "patched")
	k.ok(t, []string{"patch", "httproute", "web", "--type=json", "-p", `[{"op":"replace","path":"/spec/hostnames/0","value":"json.example.com"}]`}, "patched")
	k.ok(t, args("get httproute web -o jsonpath={.metadata.annotations.by}/{.spec.hostnames[0]}"), "merge/json.example.com")
	k.ok(t, []string{"patch", "httproute", "web", "--type=merge", "-p", `{"metadata":{"annotations":{"by":"merge"}}}`}, "patched (no change)")
	k.fails(t, "", []string{"patch", "httproute", "web", "--type=strategic", "-p", `{"spec":{}}`}, "application/strategic-merge-patch+json is not supported")
	k.fails(t, "", []string{"patch", "httproute", "web", "--type=json", "-p", `[{"op":"test","path":"/spec/hostnames/0","value":"x"}]`},
		"The request is invalid: the server rejected our request due to an error in our request")
	k.fails(t, "", []string{"patch", "httproute", "web", "--type=json", "-p", `[{"op":"remove","path":"/spec/nothing"}]`}, "The request is invalid")
	k.ok(t, []string{"patch", "gadget", "one", "--dry-run=server", "--type=merge", "-p", `{"spec":{"color":"green"}}`}, "patched")
	k.ok(t, args("get gadget one -o jsonpath={.spec.color}"), "blue")
}

func testServerSideApply(t *testing.T, k *kubectl) {
	base := "apiVersion: demo.example.org/v1\nkind: Gadget\nmetadata: {name: shared}\nspec:\n  color: red\n  parts:\n  - {name: wheel, count: 4}\n"
	k.in(t, base, args("apply --server-side --field-manager=alice -f -"), "gadget.demo.example.org/shared serverside-applied")
	other := "apiVersion: demo.example.org/v1\nkind: Gadget\nmetadata: {name: shared}\nspec:\n  color: blue\n  parts:\n  - {name: door}\n"
	k.fails(t, other, args("apply --server-side --field-manager=bob -f -"), `conflict with "alice"`, ".spec.color")
	k.in(t, other, args("apply --server-side --field-manager=bob --force-conflicts -f -"), "serverside-applied")
	k.ok(t, args("get gadget shared -o jsonpath={.spec.color}:{.spec.parts[*].name}:{.spec.parts[*].count}"), "blue:wheel door:4 1")
	k.in(t, "apiVersion: demo.example.org/v1\nkind: Gadget\nmetadata: {name: shared}\nspec:\n  color: blue\n",
		args("apply --server-side --field-manager=alice --force-conflicts -f -"), "serverside-applied")
	k.ok(t, args("get gadget shared -o jsonpath={.spec.parts[*].name}"), "door")
	k.ok(t, args("get gadget shared --show-managed-fields -o yaml"), "manager: alice", "manager: bob", "operation: Apply", `k:{"name":"door"}`)
	k.ok(t, args("delete gadget shared"))
}

func testScaleAndStatus(t *testing.T, k *kubectl) {
	k.ok(t, args("scale gadget one --replicas=5"), "scaled")
	k.ok(t, args("get gadget one -o jsonpath={.spec.replicas}"), "5")
	k.ok(t, args("get gadget one --subresource=scale -o jsonpath={.kind}/{.spec.replicas}"), "Scale/5")
	k.fails(t, "", args("scale gadget one --current-replicas=9 --replicas=1"), "Expected replicas to be 9, was 5")
	k.ok(t, []string{"patch", "gadget", "one", "--type=merge", "-p", `{"status":{"replicas":3}}`}, "no change")
	k.ok(t, []string{"patch", "gadget", "one", "--subresource=status", "--type=merge", "-p",
		`{"spec":{"replicas":7},"status":{"replicas":3,"conditions":[{"type":"Ready","status":"True"}]}}`}, "patched")
	k.ok(t, args("get gadget one -o jsonpath={.spec.replicas}/{.status.replicas}"), "5/3")
	k.ok(t, args("wait gadget/one --for=condition=Ready --timeout=10s"), "condition met")
	k.ok(t, args("wait gadget/one --for=jsonpath={.status.replicas}=3 --timeout=10s"), "condition met")
	k.fails(t, "", args("wait gadget/two --for=condition=Ready --timeout=200ms"), "timed out waiting for the condition")
}

func testNamespaces(t *testing.T, k *kubectl) {
	k.ok(t, args("get namespaces"), "default", "Active")
	k.fails(t, gadget("lost", "red"), args("create -n nowhere -f -"), `Error from server (NotFound): error when creating "STDIN": namespaces "nowhere" not found`)
	k.ok(t, args("create namespace team-a"), "namespace/team-a created")
	k.in(t, gadget("inside", "red"), args("create -n team-a -f -"), "created")
	k.ok(t, args("get gadgets -n team-a"), "inside")
	k.ok(t, args("delete namespace team-a --timeout=30s"), "deleted")
	k.fails(t, "", args("get gadget inside -n team-a"), "NotFound")
	k.fails(t, "", args("delete namespace default"), "Forbidden")
}

// testRefusals holds the texts that users see; they are upstream's.
func testRefusals(t *testing.T, k *kubectl) {
	for _, c := range []struct{ name, stdin, args, want string }{
		{"enum", gadget("bad", "pink"), "create -f -",
			"The Gadget \"bad\" is invalid: \n* spec.color: Unsupported value: \"pink\": supported values: \"red\", \"green\", \"blue\"\n" +
				"* <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation\n"},
		{"required", "apiVersion: demo.example.org/v1\nkind: Gadget\nmetadata: {name: bad}\nspec: {}\n", "create -f -",
			"* spec.color: Required value\n* <nil>: Invalid value: null: some validation rules were not checked"},
		{"type", "apiVersion: demo.example.org/v1\nkind: Gadget\nmetadata: {name: bad}\nspec: {color: red, replicas: many}\n", "create -f -",
			`spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"`},
		{"rule with message expression", "apiVersion: demo.example.org/v1\nkind: Gadget\nmetadata: {name: bad}\nspec: {color: red, replicas: 11}\n", "create -f -",
			`The Gadget "bad" is invalid: spec.replicas: Forbidden: not so many that are red`},
		{"unknown field", gadget("bad", "red, size: 3"), "create -f -",
			`Gadget in version "v1" cannot be handled as a Gadget: strict decoding error: unknown field "spec.size"`},
		{"name", gadget("Bad_Name", "red"), "create -f -", `metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain must consist of`},
		{"exists", gadget("one", "red"), "create -f -", `Error from server (AlreadyExists): error when creating "STDIN": gadgets.demo.example.org "one" already exists`},
		{"rule of HTTPRoute", strings.Replace(webRoute, "name: web\n  labels", "name: bad\n  labels", 1) +
			"    filters:\n    - type: RequestRedirect\n      requestRedirect: {scheme: https}\n", "create -f -",
			`The HTTPRoute "bad" is invalid: spec.rules[0]: Invalid value: RequestRedirect filter must not be used together with backendRefs`},
	} {
		t.Run(c.name, func(t *testing.T) { k.fails(t, c.stdin, args(c.args), c.want) })
	}
	t.Run("transition rule", func(t *testing.T) {
		k.ok(t, []string{"patch", "gadget", "two", "--type=merge", "-p", `{"spec":{"serial":"a"}}`})
		k.fails(t, "", []string{"patch", "gadget", "two", "--type=merge", "-p", `{"spec":{"serial":"b"}}`},
			`The Gadget "two" is invalid: spec.serial: Invalid value: "b": serial is immutable`)
	})
	t.Run("conflict", func(t *testing.T) {
		old := k.ok(t, args("get gadget two -o yaml"))
		k.ok(t, args("annotate gadget two x=y"))
		k.fails(t, old, args("replace -f -"), "the object has been modified; please apply your changes to the latest version and try again")
	})
	t.Run("generated names", func(t *testing.T) {
		out := k.in(t, "apiVersion: demo.example.org/v1\nkind: Gadget\nmetadata: {generateName: gen-}\nspec: {color: red}\n", args("create -f - -o name"))
		if !strings.HasPrefix(out, "gadget.demo.example.org/gen-") || len(strings.TrimSpace(out)) != len("gadget.demo.example.org/gen-")+5 {
			t.Errorf("generated name: got %q", out)
		}
	})
	t.Run("definition with a wrong rule", func(t *testing.T) {
		k.fails(t, strings.NewReplacer("gadgets", "wrongs", "self == oldSelf", "self.nope == oldSelf", "[gd]", "[]", "gadget,", "wrong,", "Gadget", "Wrong").Replace(gadgetCRD),
			args("create -f -"), "compilation failed: ERROR: <input>:1:5: type 'string' does not support field selection")
	})
}
