package cli

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts call the command itself.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"keelson": func() { os.Exit(Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs testdata/*.txtar. With UPDATE_SCRIPTS=1 expected output is written anew: read the difference before you keep it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", UpdateScripts: os.Getenv("UPDATE_SCRIPTS") == "1"})
}
