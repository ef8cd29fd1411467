package http

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// This file converts objects for both servers: what v1 has in spec.host and spec.port, v2 has in spec.address. An object that has
// "broken" for a host has no counterpart in v2.

// startConverter starts the webhook; scripts name it ${hook.url} and ${hook.ca}.
func (r *run) startConverter() {
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review apiextv1.ConversionReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		review.Response = convertAll(review.Request)
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(&review); err != nil {
			r.t.Error(err)
		}
	}))
	r.t.Cleanup(hook.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	for side := range r.vars {
		r.vars[side]["hook.url"], r.vars[side]["hook.ca"] = hook.URL, base64.StdEncoding.EncodeToString(ca)
	}
}

func convertAll(q *apiextv1.ConversionRequest) *apiextv1.ConversionResponse {
	out := &apiextv1.ConversionResponse{UID: q.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range q.Objects {
		u := &unstructured.Unstructured{}
		err := u.UnmarshalJSON(raw.Raw)
		var text []byte
		if err == nil {
			convert(u.Object, q.DesiredAPIVersion)
			u.SetAPIVersion(q.DesiredAPIVersion)
			text, err = u.MarshalJSON()
		}
		if err == nil && strings.Contains(string(text), `"broken`) {
			out.Result = metav1.Status{Status: metav1.StatusFailure, Message: "it is broken"}
			out.ConvertedObjects = nil
			return out
		}
		if err != nil {
			out.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			return out
		}
		out.ConvertedObjects = append(out.ConvertedObjects, runtime.RawExtension{Raw: text})
	}
	return out
}

// convert moves the address of an object to where a version has it.
func convert(o map[string]any, to string) {
	spec, _ := o["spec"].(map[string]any)
	if spec == nil {
		return
	}
	if strings.HasSuffix(to, "/v2") {
		host, okHost := spec["host"].(string)
		port, okPort := spec["port"].(int64)
		if okHost || okPort {
			spec["address"] = host
			if okPort {
				spec["address"] = host + ":" + strconv.FormatInt(port, 10)
			}
		}
		delete(spec, "host")
		delete(spec, "port")
		return
	}
	if address, ok := spec["address"].(string); ok {
		host, port, withPort := strings.Cut(address, ":")
		spec["host"] = host
		if n, err := strconv.ParseInt(port, 10, 64); withPort && err == nil {
			spec["port"] = n
		}
	}
	delete(spec, "address")
}

// TestConvert holds that the conversion is one that can be undone.
func TestConvert(t *testing.T) {
	o := map[string]any{"spec": map[string]any{"host": "a", "port": int64(1), "note": "n"}}
	convert(o, "post.io/v2")
	if spec := o["spec"].(map[string]any); spec["address"] != "a:1" || len(spec) != 2 {
		t.Errorf("in v2: %v", spec)
	}
	convert(o, "post.io/v1")
	if spec := o["spec"].(map[string]any); spec["host"] != "a" || spec["port"] != int64(1) || len(spec) != 3 {
		t.Errorf("and back: %v", spec)
	}
}
