package builtin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/offline"
)

// This file compares the verdicts of keelson validate on the repositories of docs/ci.md with dry runs on kube-apiserver.

// TestRepositories sends each object of a known kind in the repositories to kube-apiserver as a dry run, and compares the answer with
// the verdict of keelson validate: status, causes, texts and warnings. Each repository has a server of its own, with the repository's
// CRDs and namespaces. The numbers of objects must be those of the table.
func TestRepositories(t *testing.T) {
	if testing.Short() {
		t.Skip("kube-apiserver takes its time to start, and the repositories are downloaded")
	}
	bin := filepath.Join(t.TempDir(), "keelson")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", bin, "./cmd/keelson").CombinedOutput(); err != nil {
		t.Fatalf("building keelson: %v\n%s", err, out)
	}
	all := repositories(t)
	if len(all) < 10 {
		t.Fatalf("got %d repositories in docs/ci.md, want at least 10", len(all))
	}
	only := os.Getenv("ONLY") // part of a module's name
	for _, r := range all {
		if strings.Contains(r.module, only) {
			t.Run(strings.ReplaceAll(r.module, "/", "_"), func(t *testing.T) { r.compare(t, bin) })
		}
	}
	for i := range dryRunExceptions {
		if e := &dryRunExceptions[i]; e.used == 0 && only == "" {
			t.Errorf("exceptions of dry runs: %s: no object needs it", e.why)
		}
	}
}

// repository is a row of the table in docs/ci.md.
type repository struct {
	module, version string
	known           int // objects of known kinds: valid and not valid ones
}

// repositories reads the table in docs/ci.md.
func repositories(t *testing.T) []repository {
	t.Helper()
	text, err := os.ReadFile("../../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []repository
	for _, m := range projectRow.FindAllStringSubmatch(string(text), -1) {
		valid, _ := strconv.Atoi(m[3])
		invalid, _ := strconv.Atoi(m[4])
		all = append(all, repository{m[1], m[2], valid + invalid})
	}
	return all
}

// projectRow matches a row: module, version, objects, valid, not valid.
var projectRow = regexp.MustCompile(`(?m)^\| (\S+) (v\S+) \| \d+ \| (\d+) \| (\d+) \|`)

// verdict is the result of keelson validate for one object.
type verdict struct {
	File, APIVersion, Kind, Namespace, Name, Skipped string
	Line                                             int
	Findings                                         []struct{ ID, Message string }
	Status                                           *metav1.Status // the refusal; nil if the server accepts the object
}

// isKnown reports whether the object was checked: its text can be read, and its kind is known.
func (v *verdict) isKnown() bool { return v.Skipped == "" && v.APIVersion != "" }

// warnings returns the warnings of the server, without those about rules that only keelson validate has.
func (v *verdict) warnings() []string {
	var out []string
	for _, f := range v.Findings {
		if f.ID == "Warning" && !strings.Contains(f.Message, "the messageExpression ") {
			out = append(out, f.Message)
		}
	}
	return out
}

// dryRun is the comparison of a repository.
type dryRun struct {
	*testing.T
	upstream  *peer
	documents []manifest.Document
	verdicts  map[string][]*verdict                    // by file and line
	served    map[string]map[string]metav1.APIResource // by group version and kind
	defined   map[schema.GroupKind]bool                // by CRDs
	// Numbers of objects.
	compared, refused  int
	differ, unintended int // objects whose answers differ, and other than intended
}

// compare is the comparison of one repository.
func (r repository) compare(t *testing.T, bin string) {
	d := &dryRun{T: t, verdicts: map[string][]*verdict{}, served: map[string]map[string]metav1.APIResource{}, defined: map[schema.GroupKind]bool{}}
	d.upstream = startUpstreamIn(t, t.TempDir(), map[string][]byte{disabledPluginsFile: []byte(disabledPlugins)})
	t.Chdir(moduleFolder(t, r.module+"@"+r.version))
	in, err := manifest.Options{ObjectsOnly: true}.Read([]string{"."}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.documents = in.Documents
	d.readVerdicts(bin)
	unread := d.judgeAll(isFirst) // before they are created
	d.createNamespaces()
	d.createDefinitions()
	unread += d.judgeAll(func(m manifest.Document) bool { return !isFirst(m) })
	fmt.Printf("repositories: %s: %d objects compared, %d of them refused; %d differ, %d of these other than intended; %d are malformed or of a removed version\n",
		r.module, d.compared, d.refused, d.differ, d.unintended, unread)
	if unread > maxUnread {
		t.Errorf("got %d texts without a verdict, want at most %d", unread, maxUnread)
	}
	if d.compared+unread != r.known {
		t.Errorf("got %d objects, want the %d of docs/ci.md: valid and not valid ones", d.compared+unread, r.known)
	}
}

// maxUnread is the number of texts of a repository that need not be compared: malformed ones, and objects of removed versions.
const maxUnread = 3

// disabledPlugins are the admission plugins that keelson validate does not run: they refuse pods for objects that need not be among
// the files.
const disabledPlugins = "ServiceAccount,Priority,RuntimeClass"

// moduleFolder downloads a module and returns its folder.
func moduleFolder(t *testing.T, module string) string {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir() // outside of this module
	out, err := cmd.Output()
	var m struct{ Dir, Error string }
	if err := errors.Join(json.Unmarshal(out, &m), err); err != nil {
		t.Fatalf("%s: %v %s", module, err, m.Error)
	}
	return m.Dir
}

// readVerdicts runs keelson validate in the current folder.
func (d *dryRun) readVerdicts(bin string) {
	d.Helper()
	cmd := exec.Command(bin, "validate", "-o", "json", ".")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		d.Fatalf("keelson validate: %v\n%s", err, errs.Bytes())
	}
	var report struct{ Results []*verdict }
	if err := json.Unmarshal(out, &report); err != nil {
		d.Fatal(err)
	}
	for _, v := range report.Results {
		at := position(v.File, v.Line)
		d.verdicts[at] = append(d.verdicts[at], v)
	}
}

func position(file string, line int) string { return fmt.Sprintf("%s:%d", file, line) }

// isFirst reports whether a document is a CRD or a namespace, on which other objects depend.
func isFirst(m manifest.Document) bool {
	return offline.IsDefinition(m) || offline.KindOf(m).GroupKind() == schema.GroupKind{Kind: "Namespace"}
}

// judgeAll compares the verdicts on some of the documents. It returns the number of texts and objects that have no verdict of a
// server, but for those of unknown kinds.
func (d *dryRun) judgeAll(some func(manifest.Document) bool) (unread int) {
	d.Helper()
	for _, m := range d.documents {
		at := position(m.File, m.Line)
		if !some(m) || len(d.verdicts[at]) == 0 { // not an object
			continue
		}
		v := d.verdicts[at][0]
		d.verdicts[at] = d.verdicts[at][1:]
		if v.isKnown() {
			d.judge(m, v)
			continue
		}
		gvk := offline.KindOf(m)
		res, ok := d.resourceOf(gvk)
		switch {
		case v.Skipped != "":
		case ok:
			d.Errorf("%s: upstream serves %s as %s, keelson: %v", at, gvk, res.Name, v.Findings)
		case len(v.Findings) == 0 || v.Findings[0].ID != "UnknownKind":
			unread++
		}
	}
	return unread
}

// resourceOf returns the resource of a kind that upstream serves.
func (d *dryRun) resourceOf(gvk schema.GroupVersionKind) (metav1.APIResource, bool) {
	gv := gvk.GroupVersion().String()
	if _, ok := d.served[gv]; !ok {
		kinds := map[string]metav1.APIResource{}
		var list metav1.APIResourceList
		if a := d.upstream.ask(&request{method: "GET", path: group{GroupVersion: metav1.GroupVersion(gvk.GroupVersion())}.base()}); a.code == http.StatusOK {
			if err := json.Unmarshal(a.body, &list); err != nil {
				d.Fatal(err)
			}
		}
		for _, res := range list.APIResources {
			if !strings.Contains(res.Name, "/") && slices.Contains(res.Verbs, "create") {
				kinds[res.Kind] = res
			}
		}
		d.served[gv] = kinds
	}
	res, ok := d.served[gv][gvk.Kind]
	return res, ok
}

// post returns the request that creates an object.
func (d *dryRun) post(gvk schema.GroupVersionKind, namespace string, body []byte, query url.Values) *request {
	res, ok := d.resourceOf(gvk)
	if !ok {
		return nil
	}
	path := group{GroupVersion: metav1.GroupVersion(gvk.GroupVersion())}.base()
	if res.Namespaced {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	return &request{method: "POST", path: path + "/" + res.Name + "?" + query.Encode(), body: body}
}

// judge compares the verdict on an object with a dry run.
func (d *dryRun) judge(m manifest.Document, v *verdict) {
	d.Helper()
	d.compared++
	theirs, ours := d.ask(m, v), answeredOf(v.Status, v.warnings())
	if ours.Code != 0 {
		d.refused++
	}
	if d.defined[offline.KindOf(m).GroupKind()] {
		theirs, ours = theirs.sorted(), ours.sorted()
	}
	// Upstream checks labels and the like in a random order: an order that it has once is right.
	for try := 0; try < maxOrders && print(theirs) != print(ours) && print(theirs.sorted()) == print(ours.sorted()); try++ {
		theirs = d.ask(m, v)
	}
	x, y := print(theirs), print(ours)
	if x == y {
		return
	}
	d.differ++
	for i := range dryRunExceptions {
		if e := &dryRunExceptions[i]; e.kind.MatchString(v.APIVersion+" "+v.Kind) && e.theirs == theirs.Message && ours.Code == 0 {
			e.used++
			return
		}
	}
	d.unintended++
	d.Errorf("%s: %s %s %s/%s\n  upstream %s\n  keelson  %s", m, v.APIVersion, v.Kind, v.Namespace, v.Name, x, y)
}

// maxOrders is how often an object is sent again while only the order of its errors differs.
const maxOrders = 100

// kindNotServed is the answer for an object of a kind that upstream does not serve.
const kindNotServed = "upstream does not serve the kind"

// ask sends an object to upstream as a dry run.
func (d *dryRun) ask(m manifest.Document, v *verdict) *answered {
	d.Helper()
	q := d.post(offline.KindOf(m), v.Namespace, m.JSON, url.Values{"dryRun": {"All"}, "fieldValidation": {"Strict"}})
	if q == nil {
		return &answered{Code: http.StatusNotFound, Message: kindNotServed}
	}
	if len(m.Duplicates) > 0 { // the JSON does not show them
		q.body, q.kind = m.Text(), yamlText
	}
	a := d.upstream.ask(q)
	var refusal *metav1.Status
	if a.code >= 300 {
		refusal = new(metav1.Status)
		if err := json.Unmarshal(a.body, refusal); err != nil {
			d.Fatalf("%s: %d %s", m, a.code, a.body)
		}
		// The storage compares the names after everything else: the object passed all checks.
		if refusal.Reason == metav1.StatusReasonAlreadyExists {
			refusal = nil
		}
	}
	var warnings []string
	headers, errs := utilnet.ParseWarningHeaders(a.header["Warning"])
	if len(errs) > 0 {
		d.Errorf("%s: %v", m, errs)
	}
	for _, h := range headers {
		warnings = append(warnings, h.Text)
	}
	return answeredOf(refusal, warnings)
}

// answered is what is compared of an answer.
type answered struct {
	Code     int32 // 0: accepted
	Reason   metav1.StatusReason
	Message  string
	Causes   []metav1.StatusCause
	Warnings []string
}

// answeredOf returns what is compared of a refusal, which is nil if the object was accepted.
func answeredOf(refusal *metav1.Status, warnings []string) *answered {
	out := &answered{Warnings: warnings}
	if refusal == nil {
		return out
	}
	out.Code, out.Reason, out.Message = refusal.Code, refusal.Reason, alike(refusal.Message)
	if refusal.Details != nil {
		for _, c := range refusal.Details.Causes {
			c.Message = alike(c.Message)
			out.Causes = append(out.Causes, c)
		}
	}
	return out
}

// alike returns a text without what depends on the server: generated UIDs and the range of the services' addresses. keelson validate
// prints keys that a YAML text repeats on one line.
func alike(text string) string {
	text = uids.ReplaceAllString(text, "«uid»")
	text = serviceRanges.ReplaceAllString(text, "$1«range»")
	text = strings.ReplaceAll(text, `"Drop":[]`, `"Drop":null`) // stored objects do not tell an empty list from none
	if before, keys, ok := strings.Cut(text, "yaml: unmarshal errors:\n  "); ok {
		text = before + strings.ReplaceAll(keys, "\n  ", ", ")
	}
	return text
}

// serviceRanges matches the range of the services' addresses in an error.
var serviceRanges = regexp.MustCompile(`(The range of valid IPs is )[0-9./]+`)

// sorted returns an answer with sorted errors. Upstream reports those of a custom resource in the order of an iteration over a map.
func (a *answered) sorted() *answered {
	out := *a
	out.Causes = slices.Clone(a.Causes)
	slices.SortFunc(out.Causes, func(x, y metav1.StatusCause) int { return strings.Compare(print(x), print(y)) })
	if m := listed.FindStringSubmatch(a.Message); m != nil {
		parts := strings.Split(m[2], ", ")
		slices.Sort(parts)
		out.Message = m[1] + "[" + strings.Join(parts, ", ") + "]"
	}
	return &out
}

// createNamespaces creates the namespaces of all objects, as the first document that describes one has it.
func (d *dryRun) createNamespaces() {
	d.Helper()
	bodies := map[string][]byte{}
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	for _, m := range d.documents {
		name := offline.SubjectOf(m, "").Name
		if offline.KindOf(m) == gvk && bodies[name] == nil {
			bodies[name] = m.JSON
		}
	}
	for _, all := range d.verdicts {
		for _, v := range all {
			if v.Namespace != "" && bodies[v.Namespace] == nil {
				bodies[v.Namespace] = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, v.Namespace)
			}
		}
	}
	for _, body := range bodies {
		d.upstream.ask(d.post(gvk, "", body, nil)) // some have malformed names
	}
}

// createDefinitions creates the CRDs among the documents, the first of each name. It waits until they are served.
func (d *dryRun) createDefinitions() {
	d.Helper()
	var among []manifest.Document
	for _, m := range d.documents {
		if offline.IsDefinition(m) {
			among = append(among, m)
		}
	}
	among, _ = offline.Distinct(among)
	var names []string
	for _, m := range among {
		q := d.post(offline.KindOf(m), "", m.JSON, url.Values{"dryRun": {"All"}})
		if q == nil || d.upstream.ask(q).code != http.StatusCreated {
			continue
		}
		a := d.upstream.ask(d.post(offline.KindOf(m), "", d.withoutConversion(m.JSON), nil))
		if a.code != http.StatusCreated {
			d.Errorf("%s: %d %s", m, a.code, a.body)
			continue
		}
		names = append(names, offline.SubjectOf(m, "").Name)
	}
	for _, name := range names {
		d.awaitDefinition(name)
	}
	clear(d.served)
}

// withoutConversion returns a CRD that converts by the name of the version alone, as keelson validate does: no webhook answers here.
func (d *dryRun) withoutConversion(text []byte) []byte {
	d.Helper()
	var crd map[string]any
	if err := json.Unmarshal(text, &crd); err != nil {
		d.Fatal(err)
	}
	if spec, ok := crd["spec"].(map[string]any); ok {
		delete(spec, "conversion")
	}
	return []byte(print(crd))
}

// awaitDefinition waits until a CRD is served, or will not be.
func (d *dryRun) awaitDefinition(name string) {
	d.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var crd apiextv1.CustomResourceDefinition
		a := d.upstream.ask(&request{method: "GET", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + name})
		if err := json.Unmarshal(a.body, &crd); err != nil {
			d.Fatal(err)
		}
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextv1.NamesAccepted && c.Status == apiextv1.ConditionFalse {
				return // another CRD has the names
			}
		}
		served := len(crd.Status.Conditions) > 0
		for _, v := range crd.Spec.Versions {
			if v.Served {
				path := "/apis/" + crd.Spec.Group + "/" + v.Name
				all := d.upstream.ask(&request{method: "GET", path: path})
				one := d.upstream.ask(&request{method: "GET", path: path + "/" + crd.Spec.Names.Plural + "?limit=1"})
				served = served && bytes.Contains(all.body, []byte(`"name":"`+crd.Spec.Names.Plural+`"`)) && one.code == http.StatusOK
			}
		}
		if served {
			d.defined[schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}] = true
			return
		}
		if time.Now().After(end) {
			d.Fatalf("%s is not served: %s", name, print(crd.Status))
		}
	}
}

// dryRunException is an intended difference: keelson validate accepts objects that upstream refuses.
type dryRunException struct {
	why    string
	kind   *regexp.Regexp // apiVersion and kind of the object
	theirs string         // upstream's message
	used   int
}

var dryRunExceptions = []dryRunException{
	// Ledger: definitions-v1beta1.
	{why: "definitions of v1beta1 are served", kind: regexp.MustCompile(`^apiextensions\.k8s\.io/v1beta1 CustomResourceDefinition$`), theirs: kindNotServed},
	{why: "kinds that only definitions of v1beta1 define", kind: regexp.MustCompile(`^argoproj\.io/v1alpha1 (CronWorkflow|WorkflowTemplate)$`), theirs: kindNotServed},
}
