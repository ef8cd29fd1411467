package manifest

import (
	"encoding/json"
	"path/filepath"
	"regexp"
)

// This file finds the files of Chainsaw and KUTTL tests that look like objects, but are only parts of
// some.

// Reasons why files of tests are skipped.
const (
	expectedPart = "what a test expects of an object, which is not all of it"
	testPart     = "a part of an object, for a step of a Chainsaw test"
)

// expectedName matches the files that KUTTL, and Chainsaw without a Test, compare with objects.
var expectedName = regexp.MustCompile(`^\d+-(assert|errors?)(-[^.]*)?\.ya?ml$`)

// chainsawTest has the fields of a Test of Chainsaw that name files.
type chainsawTest struct {
	APIVersion, Kind string
	Spec             struct {
		Steps []struct {
			Try, Catch, Finally, Cleanup []chainsawOperation
			Use                          struct {
				With struct{ Bindings []struct{ Value any } } // files of a template, whatever it does with them
			}
		}
	}
}

// chainsawOperation is what a step of a Test does with a file.
type chainsawOperation struct {
	Apply, Create, Update, Assert, Error, Patch, Delete struct{ File string }
}

// testParts returns why files are skipped: those that the Tests of Chainsaw among them only assert,
// patch with or delete, and those that KUTTL asserts by their names.
func (o Options) testParts(files []string) map[string]string {
	out := map[string]string{}
	applied := map[string]bool{}
	for _, file := range files {
		switch base := filepath.Base(file); {
		case expectedName.MatchString(base):
			out[filepath.Clean(file)] = expectedPart
		case base == "chainsaw-test.yaml", base == "chainsaw-test.yml":
			text, err := o.read(file, nil)
			if err != nil {
				continue // reading it again reports the error
			}
			for _, d := range Split(file, text) {
				var test chainsawTest
				if json.Unmarshal(d.JSON, &test) == nil && test.Kind == "Test" {
					test.parts(filepath.Dir(file), out, applied)
				}
			}
		}
	}
	for file := range applied {
		delete(out, file) // one is enough to make it an object
	}
	return out
}

// parts adds the files that a test uses as parts to out, and those that it applies to applied.
func (t *chainsawTest) parts(dir string, out map[string]string, applied map[string]bool) {
	for _, step := range t.Spec.Steps {
		for _, b := range step.Use.With.Bindings {
			if file, ok := b.Value.(string); ok {
				applied[filepath.Join(dir, file)] = true
			}
		}
		for _, operations := range [][]chainsawOperation{step.Try, step.Catch, step.Finally, step.Cleanup} {
			for _, o := range operations {
				for _, file := range []string{o.Apply.File, o.Create.File, o.Update.File} {
					applied[filepath.Join(dir, file)] = true
				}
				for _, file := range []string{o.Patch.File, o.Delete.File} {
					out[filepath.Join(dir, file)] = testPart
				}
				for _, file := range []string{o.Assert.File, o.Error.File} {
					out[filepath.Join(dir, file)] = expectedPart
				}
			}
		}
	}
}
