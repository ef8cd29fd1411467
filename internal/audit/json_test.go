package audit

import (
	"encoding/json"
	"testing"
)

// FuzzEncode compares the JSON of events with that of encoding/json.
func FuzzEncode(f *testing.F) {
	for _, text := range []string{
		`{}`,
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"x","stage":"ResponseComplete","requestURI":"/x?a=1&b=<>","verb":"create",
			"user":{"username":"system:admin","uid":"u","groups":["a","b"],"extra":{"k":["v",""],"":null}},"impersonatedUser":{},
			"authenticationMetadata":{"impersonationConstraint":"impersonate:user-info"},"sourceIPs":["127.0.0.1","::1"],"userAgent":"curl/8",
			"objectRef":{"resource":"r","namespace":"n","name":"o","uid":"u","apiGroup":"g","apiVersion":"v1","resourceVersion":"1","subresource":"status"},
			"responseStatus":{"metadata":{},"code":201},"requestReceivedTimestamp":"2020-01-02T03:04:05.000006Z","stageTimestamp":"2020-01-02T03:04:05.100000Z",
			"annotations":{"b":"\u2028\ud800<","a":"\u0000\"\\"}}`,
		`{"responseStatus":{"metadata":{"resourceVersion":"3"},"status":"Failure","message":"no","reason":"Forbidden","details":{"name":"x"},"code":403}}`,
		`{"responseStatus":{"code":0},"objectRef":{},"annotations":{},"sourceIPs":[]}`,
		`{"responseStatus":{"code":200,"metadata":{"remainingItemCount":0}},"requestObject":{"a": "<"},"responseObject":null}`,
		`{"responseStatus":{"code":-1},"requestReceivedTimestamp":"9999-12-31T23:59:59.999999Z","stageTimestamp":"2020-01-02T03:04:05.000000+05:00"}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var e Event
		if json.Unmarshal([]byte(text), &e) != nil {
			return
		}
		want, wrong := json.Marshal(&e)
		got, err := encode(&e)
		if (err != nil) != (wrong != nil) || err == nil && string(got) != string(want) {
			t.Errorf("%s:\ngot  %s, %v\nwant %s, %v", text, got, err, want, wrong)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	var e Event
	err := json.Unmarshal([]byte(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"5d1c8a54-58f5-4d4e-a7c5-1d1bd8f0e2ab","stage":"ResponseComplete",
		"requestURI":"/apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes","verb":"create","user":{"username":"system:admin","groups":["system:masters","system:authenticated"]},
		"sourceIPs":["127.0.0.1"],"userAgent":"curl/8","objectRef":{"resource":"httproutes","namespace":"default","name":"route","apiGroup":"gateway.networking.k8s.io","apiVersion":"v1"},
		"responseStatus":{"metadata":{},"code":201},"requestReceivedTimestamp":"2020-01-02T03:04:05.000006Z","stageTimestamp":"2020-01-02T03:04:05.100000Z",
		"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}}`), &e)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encode(&e); err != nil {
			b.Fatal(err)
		}
	}
}
