package conversion

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// This file tests how the list of an answer is taken apart.

func TestElements(t *testing.T) {
	for _, text := range []string{`[]`, `[ ]`, `null`, `[1]`, ` [ {"a":[1,2,"],\""]} , [[],{}] ,"\\",null, -1e3 ] `, `[[1,2],[3]]`, `["a\\\"",{"b":"}"}]`, `{}`, `"x"`, `7`} {
		text = strings.TrimSpace(text) // as a RawMessage is
		var want []json.RawMessage
		wantErr := json.Unmarshal([]byte(text), &want)
		got, n, err := elements([]byte(text), 100)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || n != len(want) || fmt.Sprintf("%s", got) != fmt.Sprintf("%s", want) {
			t.Errorf("%s: got %s, %d, %v, want %s, %v", text, got, n, err, want, wantErr)
		}
	}
	if got, n, err := elements([]byte(`[1,2,3]`), 2); got != nil || n != 3 || err != nil {
		t.Errorf("got %s, %d, %v", got, n, err)
	}
}

// TestManyConvertedObjects holds that an answer with millions of objects takes no more memory than
// a few copies of its text.
func TestManyConvertedObjects(t *testing.T) {
	const n = 2_000_000
	answer := fmt.Sprintf(success, strings.Repeat("{},", n-1)+"{}")
	w := hook(t, []string{"v1"}, func(string) string { return answer })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := w.objects([]byte(answer), "UID", 1)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Error(err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 4*uint64(len(answer)) {
		t.Errorf("%d bytes of objects took %d bytes", len(answer), took)
	}
	_, err = w.Convert(context.Background(), "example.org/v2", [][]byte{[]byte(object)})
	if want := "returned 2000000 objects, expected 1"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
