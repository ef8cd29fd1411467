// Package examples tests the examples: the commands of docs/examples.md and of the README.md of each
// folder print what the document says, and a server answers the requests of the examples as the
// offline commands do.
package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/cli"
	"github.com/keelson-io/keelson/internal/testdir"
	"github.com/keelson-io/keelson/server"
	"github.com/keelson-io/keelson/servertest"
)

// index is the document that lists the examples.
const index = "../docs/examples.md"

// TestMain puts keelson, which is this test's process, into the PATH of commands.
func TestMain(m *testing.M) {
	os.Setenv("TMPDIR", testdir.Root())
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	testscript.Main(m, map[string]func(){
		"keelson": func() { os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestPage runs each line of the index and of the examples' documents that starts with "$ keelson",
// and compares what it prints on both streams with the lines below it. UPDATE_EXAMPLES=1 rewrites
// these lines: read the difference before you commit it.
func TestPage(t *testing.T) {
	for _, page := range append(folders(t, "*", "README.md"), index) {
		t.Run(filepath.ToSlash(page), func(t *testing.T) { checkPage(t, page) })
	}
}

// stories is the number of stories of each proposal.
var stories = map[string]int{"KEP-3221": 6, "KEP-2876": 15, "KEP-2332": 11}

// TestIndex holds that the index links to the document of each folder, and has all stories by number.
func TestIndex(t *testing.T) {
	text, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range folders(t, "*", "README.md") {
		if !strings.Contains(string(text), "](../examples/"+filepath.ToSlash(page)+")") {
			t.Errorf("%s: no link to %s", index, page)
		}
	}
	missing := maps.Clone(stories)
	for section := range strings.SplitSeq(string(text), "\n## ") {
		title, rows, _ := strings.Cut(section, "\n")
		_, kep, _ := strings.Cut(strings.TrimSuffix(title, ")"), "(")
		for i := range stories[kep] {
			if !strings.Contains(rows, fmt.Sprintf("\n| %d | [", i+1)) {
				t.Errorf("%s: %s has no row of story %d", index, kep, i+1)
			}
		}
		delete(missing, kep)
	}
	if len(missing) > 0 {
		t.Errorf("%s: no section of %v", index, missing)
	}
}

// folders returns the path of file in each folder of examples of a kind: authorization, pruning or
// rules, or * for all. A folder without the file fails the test.
func folders(t *testing.T, kind, file string) []string {
	list, err := filepath.Glob(filepath.Join(kind, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, path := range list {
		path = filepath.Join(filepath.Dir(path), file)
		if slices.Contains(files, path) {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
		files = append(files, path)
	}
	if len(files) == 0 {
		t.Fatalf("%s: no folders", kind)
	}
	return files
}

// checkPage runs the commands of a document, at least one, and compares.
func checkPage(t *testing.T, page string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	commands, inBlock := 0, false
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "```"):
			inBlock = line == "```console\n"
			got.WriteString(line)
		case inBlock && strings.HasPrefix(line, "$ keelson "):
			commands++
			got.WriteString(line + runCommand(t, strings.TrimPrefix(line, "$ ")))
		case !inBlock:
			got.WriteString(line)
		}
	}
	if commands == 0 {
		t.Fatalf("%s: no commands", page)
	}
	if got.String() == string(text) {
		return
	}
	if os.Getenv("UPDATE_EXAMPLES") == "1" {
		if err := os.WriteFile(page, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s does not show what the commands print; got\n%s", page, got.String())
}

// runCommand returns what a command prints on both streams. A command that cannot run fails the
// test; one whose answer is no does not.
func runCommand(t *testing.T, command string) string {
	out, err := exec.Command("sh", "-c", command).CombinedOutput()
	if code := exitCode(err); code > 1 {
		t.Errorf("%sgot exit code %d: %s", command, code, out)
	}
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	return string(out)
}

// exitCode returns the exit code of a command that ended with err; 127 if it did not run.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	return 127
}

// TestServerDecidesAsOffline sends the requests of the authorization examples to a server whose
// webhooks answer as --answer says, and compares the decisions and reasons.
func TestServerDecidesAsOffline(t *testing.T) {
	for _, row := range []struct {
		folder  string
		answers map[string]string // webhook -> its answer, as --answer takes it
		program bool              // the program of the folder webhook decides
	}{
		{"protect-crds", map[string]string{"crd-guard": "deny"}, true},
		{"two-webhooks", map[string]string{"system-guard": "deny", "policy-engine": "allow"}, false},
		{"two-webhooks", map[string]string{"system-guard": "error", "policy-engine": "error"}, false},
		{"deny-rules", map[string]string{"forbidden": "deny"}, false},
		{"scoped-role", map[string]string{"contractor-scope": "deny"}, true},
		{"versions", map[string]string{"company": "no-opinion"}, false},
		{"skip-webhook", map[string]string{"company": "error"}, false},
		{"skip-webhook", map[string]string{"company": "deny"}, false},
	} {
		t.Run(fmt.Sprint(row.folder, row.answers), func(t *testing.T) {
			t.Parallel() // a webhook that fails is asked several times, with pauses
			folder := filepath.Join("authorization", row.folder)
			want := decideOffline(t, folder, row.answers)
			got := decideOnServer(t, startServer(t, folder, row.answers, row.program), folder)
			if len(want) == 0 || len(got) != len(want) {
				t.Fatalf("got %d decisions of the server, want %d", len(got), len(want))
			}
			for i, w := range want {
				if !got[i].equals(w) {
					t.Errorf("%s: got %+v of the server, want %+v", w.Request, got[i], w)
				}
				if row.program && w.Decision == "deny" && !strings.HasSuffix(got[i].Reason, " only") {
					t.Errorf("%s: got the reason %q, want that of the webhook's policy", w.Request, got[i].Reason)
				}
			}
		})
	}
}

// decision is what "keelson authz check -o json" prints for a request.
type decision struct {
	Request, Decision, By, Reason string
}

// equals reports whether the answer d of a server is the decision w. A server does not tell denied
// from not allowed if a webhook failed, and gives a reason only if there is one.
func (d decision) equals(w decision) bool {
	if w.Decision == "allow" {
		return d.Decision == "allow" && d.Reason == w.Reason
	}
	return d.Decision != "allow" && (w.Decision != "deny" || d.Decision == "deny")
}

// decideOffline returns what "keelson authz check" decides about the requests of folder.
func decideOffline(t *testing.T, folder string, answers map[string]string) []decision {
	args := []string{"authz", "check", "-o", "json", "--config", filepath.Join(folder, "authorization.yaml"),
		"--rbac", filepath.Join(folder, "roles.yaml"), "--request", filepath.Join(folder, "requests.yaml")}
	for name, answer := range answers {
		args = append(args, "--answer", name+"="+answer)
	}
	out, err := exec.Command("keelson", args...).Output()
	if code := exitCode(err); code > 1 {
		t.Fatalf("keelson %v: exit code %d", args, code)
	}
	var list []decision
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return list
}

// TestSkippedRequestsAreCounted holds that the metric that the example skip-webhook names counts the
// requests that skip the webhook.
func TestSkippedRequestsAreCounted(t *testing.T) {
	folder := filepath.Join("authorization", "skip-webhook")
	s := startServer(t, folder, map[string]string{"company": "deny"}, false)
	decideOnServer(t, s, folder)
	metrics, err := kubernetes.NewForConfigOrDie(s.Config).RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	const want = `apiserver_authorization_match_condition_exclusions_total{name="company",type="Webhook"} 2` + "\n"
	if !strings.Contains(string(metrics), want) {
		t.Errorf("the metrics have no line %q", want)
	}
}

// startServer starts a server with the configuration and the roles of folder, and a webhook for each
// answer. If program is true, the program of the folder webhook decides by its policy instead.
func startServer(t *testing.T, folder string, answers map[string]string, program bool) *servertest.Server {
	text, err := os.ReadFile(filepath.Join(folder, "authorization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range answers {
		path := "/etc/keelson/" + name + ".kubeconfig"
		if !bytes.Contains(text, []byte(path)) {
			t.Fatalf("%s: no webhook %s", folder, name)
		}
		hook := ""
		if program {
			hook = startProgram(t)
		} else {
			hook = startWebhook(t, answer)
		}
		text = bytes.ReplaceAll(text, []byte(path), []byte(hook))
	}
	file := filepath.Join(t.TempDir(), "authorization.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := servertest.Start(t, servertest.Configure(func(c *server.Config) { c.Authorization = config.Flags{File: file} }))
	for _, role := range readDocuments(t, filepath.Join(folder, "roles.yaml")) {
		resource := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: strings.ToLower(role.GetKind()) + "s"}
		if _, err := dynamic.NewForConfigOrDie(s.Config).Resource(resource).Create(context.Background(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// decideOnServer returns what a server answers to the requests of folder.
func decideOnServer(t *testing.T, s *servertest.Server, folder string) []decision {
	client := kubernetes.NewForConfigOrDie(s.Config).AuthorizationV1().SubjectAccessReviews()
	var list []decision
	for _, request := range readDocuments(t, filepath.Join(folder, "requests.yaml")) {
		var review authorizationv1.SubjectAccessReview
		text, err := request.MarshalJSON()
		if err == nil {
			err = json.Unmarshal(text, &review)
		}
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Create(context.Background(), &review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		d := decision{Decision: "no opinion", Reason: answer.Status.Reason}
		if answer.Status.Denied {
			d.Decision = "deny"
		} else if answer.Status.Allowed {
			d.Decision = "allow"
		}
		list = append(list, d)
	}
	return list
}

// startWebhook starts an authorization webhook that gives each review the same answer, and returns
// the path of a kubeconfig for it.
func startWebhook(t *testing.T, answer string) string {
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err == nil {
			err = json.Unmarshal(body, &review)
		}
		if err != nil || answer == "error" {
			http.Error(w, "out of order", http.StatusInternalServerError)
			return
		}
		review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: answer == "allow", Denied: answer == "deny"}
		json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(hook.Close)
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["hook"] = &clientcmdapi.Cluster{Server: hook.URL, InsecureSkipTLSVerify: true}
	kubeconfig.Contexts["hook"] = &clientcmdapi.Context{Cluster: "hook"}
	kubeconfig.CurrentContext = "hook"
	file := filepath.Join(t.TempDir(), "hook.kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// readDocuments returns the objects of a file with YAML documents.
func readDocuments(t *testing.T, file string) []*unstructured.Unstructured {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []*unstructured.Unstructured
	for document := range strings.SplitSeq(string(text), "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		list = append(list, object)
	}
	return list
}
