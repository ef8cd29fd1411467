package atrest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/testkit"
)

// fake is a server with scripted answers, each by its query.
type fake struct {
	mu      sync.Mutex
	answers map[string][]string // texts; one that begins with a digit has that status. The last one stays
	asked   []string
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	key := "list " + query.Get("continue")
	if query.Get("watch") != "" {
		key = "watch " + query.Get("resourceVersion")
	}
	f.mu.Lock()
	f.asked = append(f.asked, key)
	list := f.answers[key]
	if len(list) > 1 {
		f.answers[key] = list[1:]
	}
	f.mu.Unlock()
	switch {
	case len(list) == 0:
		<-r.Context().Done() // a watch without events
	case list[0][0] != '{':
		var code int
		fmt.Sscan(list[0], &code)
		w.WriteHeader(code)
	default:
		fmt.Fprint(w, list[0])
	}
}

// start starts the server.
func (f *fake) start(t *testing.T) (*Server, Resource) {
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &Server{s.Client(), base}, Resource{Kind: widgets, Version: "v1", Watched: true, path: "apis/example.com/v1/widgets"}
}

// page returns a list.
func (f *fake) page(version, token string, items ...string) string {
	return `{"metadata":{"resourceVersion":"` + version + `","continue":"` + token + `"},"items":[` + strings.Join(items, ",") + `]}`
}

// event returns an event of a watch.
func event(typ, name, version string) string {
	return `{"type":"` + typ + `","object":{"metadata":{"name":"` + name + `","resourceVersion":"` + version + `"}}}`
}

func fails(t *testing.T) func(error) {
	return func(err error) { t.Error(err) }
}

func TestExportContinues(t *testing.T) {
	d, f := openTest(t), &fake{}
	f.answers = map[string][]string{
		"list ":   {f.page("7", "t1", widget("a", "{}"))},
		"list t1": {"500", f.page("7", "t2", `{"metadata":{"name":"b","namespace":"n"}}`), "410"},
		"list t2": {"410", f.page("9", "", widget("c", "{}"))},
	}
	s, r := f.start(t)
	if _, _, err := s.Export(t.Context(), d, r, "s", fails(t), func(int) {}); err == nil {
		t.Fatal("no error of an answer with status 500")
	}
	// The second attempt continues at t1. At t2 the list has expired, so that it begins again; t1 has
	// expired, too.
	f.answers["list "] = []string{f.page("9", "t2", widget("a", "{}"))}
	_, n, err := s.Export(t.Context(), d, r, "s", fails(t), func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"list ", "list t1", "list t1", "list t2", "list ", "list t2"}; !slices.Equal(f.asked, want) {
		t.Errorf("got requests %v, want %v", f.asked, want)
	}
	if names, _ := selected(t, d, "self.apiVersion == 'example.com/v1'"); !slices.Equal(names, []string{"a", "c"}) || n.Removed != 1 {
		t.Error(names, n)
	}
	if table, err := s.Followable(t.Context(), d, r, "s"); err != nil || table == nil || table.ResourceVersion != "9" {
		t.Error(table, err)
	}
	if table, err := s.Followable(t.Context(), d, r, "another"); err != nil || table != nil {
		t.Error(table, err)
	}
}

func TestResources(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api" {
			fmt.Fprint(w, `{"items":[]}`)
			return
		}
		resource := `{"resource":"widgets","responseKind":{"kind":"Widget"},"verbs":["list","watch"]},{"resource":"reviews","responseKind":{"kind":"Review"},"verbs":["create"]}`
		fmt.Fprint(w, `{"items":[{"metadata":{"name":"example.com"},"versions":[{"version":"v2","resources":[`+resource+`]},{"version":"v1","resources":[`+resource+`]}]},
			{"metadata":{"name":"metrics.k8s.io"},"versions":[{"version":"v1","freshness":"Stale"}]}]}`)
	}))
	defer s.Close()
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	all, stale, err := (&Server{s.Client(), base}).Resources(t.Context())
	if want := []Resource{{widgets, "v2", true, "apis/example.com/v2/widgets"}}; err != nil || !slices.Equal(all, want) || !slices.Equal(stale, []string{"apis/metrics.k8s.io/v1"}) {
		t.Error(all, stale, err)
	}
}

func TestFollow(t *testing.T) {
	d, f := openTest(t), &fake{}
	f.answers = map[string][]string{
		"list ":    {f.page("7", "", event("", "a", "3")[len(`{"type":"","object":`):len(event("", "a", "3"))-1])},
		"watch 7":  {event("ADDED", "b", "8") + event("MODIFIED", "b", "9") + event("DELETED", "a", "10") + event("BOOKMARK", "", "12")},
		"watch 12": {event("ADDED", "nul\\u0000", "13")},
		"watch 13": {"503", `{"type":"ERROR","object":{"code":410,"message":"too old"}}`},
	}
	s, r := f.start(t)
	table, _, err := s.Export(t.Context(), d, r, "s", fails(t), func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	f.answers["list "] = []string{f.page("20", "", widget("z", "{}"))}
	ctx, stop := context.WithCancel(t.Context())
	var refused, notes []string
	follower := &Follower{Server: s, Database: d, Source: "s", Refused: func(err error) { refused = append(refused, err.Error()) },
		Note: func(err error) { notes = append(notes, err.Error()) }}
	var done sync.WaitGroup
	done.Go(func() {
		if err := follower.Follow(ctx, r, table); err != nil {
			t.Error(err)
		}
	})
	testkit.EventuallySay(t, func() (string, bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return fmt.Sprint(f.asked), f.asked[len(f.asked)-1] == "watch 20"
	})
	stop()
	done.Wait()
	if names, _ := selected(t, d, "true"); !slices.Equal(names, []string{"z"}) {
		t.Error(names)
	}
	if len(refused) != 1 || !strings.Contains(refused[0], "U+0000") || len(notes) != 1 || !strings.Contains(notes[0], "503") {
		t.Error(refused, notes)
	}
}

// TestFollowPauses holds that a server that ends watches at once, or whose events cannot be read, is asked at growing intervals, and that the
// second is reported.
func TestFollowPauses(t *testing.T) {
	for _, row := range []struct {
		answer string
		note   string // a part of what is reported; "" for nothing
	}{
		{event("BOOKMARK", "", "7"), ""}, // and the end
		{event("ADDED", "b", "8")[:30], "an event of the watch: unexpected EOF"},
		{event("ADDED", "b", "8") + "<html>", "an event of the watch: invalid character '<'"},
		{event("SURPRISE", "b", "8"), `got an event of the type "SURPRISE"`},
		{strings.Replace(event("ADDED", "b", "8"), `"resourceVersion":"8"`, `"a":"8"`, 1), "got an event without a resource version"},
		{`{"type":"BOOKMARK","object":{}}`, "got an event without a resource version"},
	} {
		d, f := openTest(t), &fake{}
		f.answers = map[string][]string{"list ": {f.page("7", "", "")}, "watch 7": {row.answer}, "watch 8": {row.answer}}
		s, r := f.start(t)
		table, _, err := s.Export(t.Context(), d, r, "s", fails(t), func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var pauses []time.Duration
		var notes []string
		clock := time.Now()
		follower := &Follower{Server: s, Database: d, Source: "s", Refused: func(err error) { t.Error(err) }, Note: func(err error) { notes = append(notes, err.Error()) },
			now: func() time.Time { return clock },
			sleep: func(_ context.Context, d time.Duration) {
				if pauses = append(pauses, d); len(pauses) == 10 {
					stop()
				}
				clock = clock.Add(d)
			}}
		if err := follower.Follow(ctx, r, table); err != nil {
			t.Error(err)
		}
		f.mu.Lock()
		asked := len(f.asked) - 1 // without the list
		f.mu.Unlock()
		if len(pauses) < asked || pauses[len(pauses)-1] != maxRetry {
			t.Errorf("%s: got %d watches with the pauses %v, want one after each, up to %v", row.answer, asked, pauses, maxRetry)
		}
		if row.note == "" && len(notes) > 0 || row.note != "" && (len(notes) < 9 || !strings.Contains(notes[0], row.note)) {
			t.Errorf("%s: got the notes %q, want %q", row.answer, notes, row.note)
		}
	}
}
