package kind_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/kind"
)

// batches is a conversion webhook that remembers how much it got in each call.
type batches struct{ objects, bytes []int }

func (b *batches) Convert(_ context.Context, to string, objects [][]byte) ([][]byte, error) {
	size := 0
	out := make([][]byte, len(objects))
	for i, o := range objects {
		size += len(o)
		out[i] = []byte(strings.Replace(string(o), `"example.org/v1"`, `"`+to+`"`, 1))
	}
	b.objects, b.bytes = append(b.objects, len(objects)), append(b.bytes, size)
	return out, nil
}

// TestConversionInBatches converts more objects, and longer ones, than one call of a conversion webhook has room for.
func TestConversionInBatches(t *testing.T) {
	k := compileTest(t)
	k.ConvertBy(&apiextv1.WebhookConversion{})
	for _, test := range []struct {
		many, size int
		want       string
	}{{2500, 10, "[1000 1000 500]"}, {40, 1 << 20, "[8 8 8 8 8]"}} {
		hook := &batches{}
		k.Converter = hook
		var stored []kind.StoredObject
		for n := range test.many {
			stored = append(stored, kind.StoredObject{Rev: int64(n + 1), Raw: fmt.Appendf(nil,
				`{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"w%d"},"spec":{"a":"%s"}}`+"\n", n, strings.Repeat("a", test.size))})
		}
		made := 0
		err := k.Version("v1beta1").Views(t.Context(), stored, func(int, *meta.View) { made++ })
		if got := fmt.Sprint(hook.objects); err != nil || made != test.many || got != test.want {
			t.Errorf("%d objects of %d bytes: got %d views in calls of %s, error %v, want %s", test.many, test.size, made, got, err, test.want)
		}
		for _, n := range hook.bytes {
			if n > 8<<20+test.size+1000 {
				t.Errorf("got a call of %d bytes, want at most 8 MiB and an object", n)
			}
		}
	}
}
