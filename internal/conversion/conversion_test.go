package conversion

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/internal/webhook"
)

// hook returns a webhook whose answer is a template: UID stands for the uid of the request, OBJECTS for its objects in version v2.
func hook(t *testing.T, reviews []string, answer func(request string) string) *Webhook {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID     string            `json:"uid"`
				Objects []json.RawMessage `json:"objects"`
			} `json:"request"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got a body %v of type %s", err, r.Header.Get("Content-Type"))
		}
		var objects []string
		for _, o := range review.Request.Objects {
			objects = append(objects, strings.Replace(string(o), "example.org/v1", "example.org/v2", 1))
		}
		text := strings.ReplaceAll(answer(string(review.Request.Objects[0])), "UID", review.Request.UID)
		w.Write([]byte(strings.ReplaceAll(text, "OBJECTS", strings.Join(objects, ","))))
	}))
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	w, err := New("widgets.example.org", &apiextv1.WebhookConversion{
		ConversionReviewVersions: reviews,
		ClientConfig:             &apiextv1.WebhookClientConfig{URL: &s.URL, CABundle: ca},
	}, nil, webhook.Shared{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

const (
	object  = `{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"w","namespace":"n","uid":"u","labels":{"a":"b"}},"spec":{"x":1}}`
	success = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"UID","result":{"status":"Success"},"convertedObjects":[%s]}}`
)

func TestAnswers(t *testing.T) {
	changed := func(from, to string) string {
		return fmt.Sprintf(success, strings.Replace(strings.Replace(object, "example.org/v1", "example.org/v2", 1), from, to, 1))
	}
	const who = "conversion webhook for example.org/v1, Kind=Widget "
	for name, row := range map[string]struct{ answer, want string }{
		"unchanged":        {fmt.Sprintf(success, "OBJECTS"), ""},
		"none":             {fmt.Sprintf(success, ""), who + "returned 0 objects, expected 1"},
		"failure":          {fmt.Sprintf(strings.Replace(success, `"Success"`, `"Failure","message":"no way"`, 1), ""), who + "failed: no way"},
		"no status":        {fmt.Sprintf(strings.Replace(success, `"Success"`, `""`, 1), ""), who + "failed: response.result.status was '', not 'Success'"},
		"no response":      {`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}`, who + "failed: no response provided"},
		"another kind":     {`{"apiVersion":"v1","kind":"List"}`, who + "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /v1, Kind=List"},
		"another uid":      {fmt.Sprintf(strings.Replace(success, "UID", "x", 1), ""), who + "failed: expected response.uid="},
		"another version":  {fmt.Sprintf(success, object), who + "returned invalid object at index 0: invalid groupVersion (expected example.org/v2, received example.org/v1)"},
		"the kind":         {changed("Widget", "Gadget"), who + "returned invalid object at index 0: invalid kind (expected Widget, received Gadget)"},
		"the name":         {changed(`"name":"w"`, `"name":"v"`), who + "returned invalid object: must have the same name: w != v"},
		"the namespace":    {changed(`"namespace":"n"`, `"namespace":"m"`), who + "returned invalid object: must have the same namespace: n != m"},
		"the UID":          {changed(`"uid":"u"`, `"uid":"v"`), who + "returned invalid object: must have the same UID: u != v"},
		"a label":          {changed(`"a":"b"`, `"a":"b b"`), who + "returned invalid metadata: metadata.labels: Invalid value: \"b b\""},
		"a label's type":   {changed(`"a":"b"`, `"a":1`), who + "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object"},
		"other metadata":   {changed(`"labels"`, `"finalizers":["x/y"],"generation":7,"labels"`), ""},
		"labels are its":   {changed(`"a":"b"`, `"a":"c"`), ""},
		"no JSON":          {`nothing`, who + "failed: invalid character 'o' in literal null (expecting 'u')"},
		"nothing whatever": {``, who + "failed: unexpected end of JSON input"},
	} {
		w := hook(t, []string{"v9", "v1", "v1beta1"}, func(string) string { return row.answer })
		got, err := w.Convert(context.Background(), "example.org/v2", [][]byte{[]byte(object)})
		if row.want != "" {
			if err == nil || !strings.HasPrefix(err.Error(), row.want) {
				t.Errorf("%s: got error %v, want %s", name, err, row.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := strings.Replace(object, "example.org/v1", "example.org/v2", 1)
		if name == "labels are its" {
			want = strings.Replace(want, `"a":"b"`, `"a":"c"`, 1)
		}
		if !sameJSON(t, string(got[0]), want) {
			t.Errorf("%s: got %s, want %s", name, got[0], want)
		}
	}
}

// TestAnswersOfSeveral holds that errors about several objects name the wrong one, and that an
// answer is used completely or not at all.
func TestAnswersOfSeveral(t *testing.T) {
	const who = "conversion webhook for example.org/v1, Kind=Widget returned invalid "
	var objects [][]byte
	for i := range 3 {
		objects = append(objects, []byte(strings.Replace(object, `"name":"w"`, fmt.Sprintf(`"name":"w%d"`, i), 1)))
	}
	for name, row := range map[string]struct{ from, to, want string }{
		"nothing":      {"", "", ""},
		"the version":  {"example.org/v2", "example.org/v3", who + "converted object at index 1: invalid groupVersion (expected example.org/v2, received example.org/v3)"},
		"the kind":     {"Widget", "Gadget", who + "converted object at index 1: invalid kind (expected Widget, received Gadget)"},
		"the name":     {`"w1"`, `"w2"`, who + "converted object at index 1: must have the same name: w1 != w2"},
		"the UID":      {`"uid":"u"`, `"uid":"v"`, who + "converted object at index 1: must have the same UID: u != v"},
		"a label":      {`"a":"b"`, `"a":"b b"`, who + "metadata in object at index 1: metadata.labels: Invalid value: \"b b\""},
		"all metadata": {`"metadata"`, `"meta"`, who + "converted object at index 1: must have the same name: w1 != "},
	} {
		w := hook(t, []string{"v1"}, func(string) string {
			var all []string
			for i, o := range objects {
				text := strings.Replace(string(o), "example.org/v1", "example.org/v2", 1)
				if i == 1 && row.from != "" {
					text = strings.Replace(text, row.from, row.to, 1)
				}
				all = append(all, text)
			}
			return fmt.Sprintf(success, strings.Join(all, ","))
		})
		got, err := w.Convert(context.Background(), "example.org/v2", objects)
		switch {
		case row.want == "" && (err != nil || len(got) != len(objects)):
			t.Errorf("%s: got %d objects, error %v", name, len(got), err)
		case row.want != "" && (got != nil || err == nil || !strings.HasPrefix(err.Error(), row.want)):
			t.Errorf("%s: got %d objects, error %v, want %s", name, len(got), err, row.want)
		}
	}
}

// TestLabelsOfOld holds that invalid labels which the object had before the conversion are
// accepted.
func TestLabelsOfOld(t *testing.T) {
	old := strings.Replace(object, `"a":"b"`, `"a":"b b"`, 1)
	w := hook(t, []string{"v1"}, func(string) string {
		return fmt.Sprintf(success, strings.Replace(old, "example.org/v1", "example.org/v2", 1))
	})
	got, err := w.Convert(context.Background(), "example.org/v2", [][]byte{[]byte(old)})
	if err != nil || !strings.Contains(string(got[0]), `"a":"b b"`) {
		t.Errorf("got %s, %v", got, err)
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}

// TestBeta holds that fields which v1beta1 lacks are not required in its answers.
func TestBeta(t *testing.T) {
	w := hook(t, []string{"v1beta1"}, func(string) string {
		return `{"response":{"result":{"status":"Success"},"convertedObjects":[OBJECTS]}}`
	})
	got, err := w.Convert(context.Background(), "example.org/v2", [][]byte{[]byte(object), []byte(object)})
	if err != nil || len(got) != 2 {
		t.Errorf("got %d objects, error %v", len(got), err)
	}
}

func TestManyObjectsGoInSeveralCalls(t *testing.T) {
	calls := 0
	w := hook(t, []string{"v1"}, func(string) string { calls++; return fmt.Sprintf(success, "OBJECTS") })
	var objects [][]byte
	for i := range maxObjects + 5 {
		objects = append(objects, []byte(strings.Replace(object, `"name":"w"`, fmt.Sprintf(`"name":"w%d"`, i), 1)))
	}
	got, err := w.Convert(context.Background(), "example.org/v2", objects)
	if err != nil || len(got) != len(objects) || calls != 2 {
		t.Fatalf("got %d objects in %d calls, error %v", len(got), calls, err)
	}
	if !strings.Contains(string(got[maxObjects]), fmt.Sprintf(`"w%d"`, maxObjects)) {
		t.Errorf("got %s at %d", got[maxObjects], maxObjects)
	}
}

func TestWebhookThatHangs(t *testing.T) {
	hang := make(chan struct{})
	w := hook(t, []string{"v1"}, func(string) string { <-hang; return "" })
	t.Cleanup(func() { close(hang) })
	w.timeout = 50 * time.Millisecond
	_, err := w.Convert(context.Background(), "example.org/v2", [][]byte{[]byte(object)})
	if err == nil || !strings.Contains(err.Error(), "context deadline exceeded") {
		t.Errorf("got error %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	url := "https://127.0.0.1:1"
	if _, err := New("widgets.example.org", &apiextv1.WebhookConversion{ConversionReviewVersions: []string{"v9"}, ClientConfig: &apiextv1.WebhookClientConfig{URL: &url}}, nil, webhook.Shared{}); err == nil {
		t.Error("review versions that nobody knows are accepted")
	}
	if _, err := New("widgets.example.org", &apiextv1.WebhookConversion{ConversionReviewVersions: []string{"v1"}, ClientConfig: &apiextv1.WebhookClientConfig{URL: &url, CABundle: []byte("x")}}, nil, webhook.Shared{}); err == nil {
		t.Error("a bundle without certificates is accepted")
	}
	if _, err := New("widgets.example.org", &apiextv1.WebhookConversion{ConversionReviewVersions: []string{"v1"}, ClientConfig: &apiextv1.WebhookClientConfig{URL: &url, CABundle: []byte(" \n")}}, nil, webhook.Shared{}); err != nil {
		t.Errorf("a blank bundle: %v", err)
	}
}
