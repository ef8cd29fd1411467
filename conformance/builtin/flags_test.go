package builtin

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/keelson-io/keelson/internal/cli"
)

// This file starts Keelson with kube-apiserver's flags.

// unlisted are flags of kube-apiserver that are about the program itself.
var unlisted = map[string]bool{"help": true, "version": true}

// upstreamFlags returns the flags of kube-apiserver, whose command can be made once only.
var upstreamFlags = sync.OnceValue(func() *pflag.FlagSet { return app.NewAPIServerCommand().Flags() })

// TestFlags holds that under the name kube-apiserver every flag of kube-apiserver is taken, in the forms in which it takes it;
// and that nobody is told of flags that it no longer has.
func TestFlags(t *testing.T) {
	run := func(args ...string) (code int, out string) {
		var both bytes.Buffer
		code = cli.Main(append([]string{"/assets/kube-apiserver"}, append(args, "--help")...), strings.NewReader(""), &both, &both)
		return code, both.String()
	}
	code, help := run()
	if code != 0 || strings.Contains(help, "--insecure-port") || !strings.Contains(help, "--cert-dir") {
		t.Errorf("help: got %d\n%s", code, help)
	}
	n := 0
	upstreamFlags().VisitAll(func(f *pflag.Flag) {
		if unlisted[f.Name] {
			return
		}
		n++
		value := strings.Trim(f.DefValue, "[]")
		if f.Value.Type() == "int32Slice" { // kube-apiserver does not take its own default, the empty list
			value = "29"
		}
		args := []string{"--" + f.Name + "=" + value}
		if f.NoOptDefVal != "" {
			args = append(args, "--"+f.Name)
		}
		if code, out := run(args...); code != 0 {
			t.Errorf("%s: got %d %s", strings.Join(args, " "), code, firstLine(out))
		}
	})
	if n < 150 {
		t.Errorf("kube-apiserver has %d flags", n)
	}
	if code, out := run("--no-such-flag=1"); code == 0 {
		t.Errorf("a flag that nobody knows: got %s", out)
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
