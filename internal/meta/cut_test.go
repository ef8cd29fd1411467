package meta

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
)

// TestErrorsOfMetadataEnd holds that the errors of metadata end soon after they have as much text as a Status
// lists, and that items which are valid hide none behind them.
//
// Ledger: error-lists.
func TestErrorsOfMetadataEnd(t *testing.T) {
	const items = 200_000
	repeat := func(item string) string { return item + strings.Repeat(","+item, items-1) }
	var keys, names strings.Builder
	for i := range items {
		fmt.Fprintf(&keys, `,"a b%d":""`, i)
		fmt.Fprintf(&names, `,"a b%d"`, i)
	}
	for _, members := range []string{
		`"labels":{` + keys.String()[1:] + `}`, `"annotations":{` + keys.String()[1:] + `}`, `"finalizers":[` + names.String()[1:] + `]`,
		`"ownerReferences":[` + repeat(`{}`) + `]`, `"managedFields":[` + repeat(`{}`) + `]`,
	} {
		d := new(jsondoc.Doc)
		if err := jsondoc.Parse(d, []byte(`{"metadata":{"name":"a","namespace":"b",`+members+`}}`)); err != nil {
			t.Fatal(err)
		}
		errs := ValidateObjectMeta(Object{Doc: d}, true)
		size := 0
		for _, err := range errs {
			size += len(err.Error())
		}
		if size <= texts.Most || len(errs) > 5*mostInvalid || !texts.IsMore(errs[len(errs)-1]) {
			t.Errorf("%.30s: got %d errors of %d bytes, want at most %d of more than %d, and the last one", members, len(errs), size, 5*mostInvalid, texts.Most)
		}
	}
	d := new(jsondoc.Doc)
	if err := jsondoc.Parse(d, []byte(`{"metadata":{"name":"a","namespace":"b","finalizers":[`+repeat(`"a"`)+`,"a b"]}}`)); err != nil {
		t.Fatal(err)
	}
	if errs := ValidateObjectMeta(Object{Doc: d}, true); len(errs) != 1 || texts.IsMore(errs[0]) {
		t.Errorf("after valid items: got %d errors, want one", len(errs))
	}
}
