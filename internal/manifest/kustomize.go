package manifest

import (
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// This file finds the files of kustomize that look like objects, but are only parts of some.

// kustomization has the fields of a kustomization.yaml that name files.
type kustomization struct {
	Resources             []string
	Patches               []struct{ Path string }
	PatchesJSON6902       []struct{ Path string } `json:"patchesJson6902"`
	PatchesStrategicMerge []string
	Replacements          []struct{ Path string }
	Configurations        []string
	ConfigMapGenerator    []struct{ Files []string }
	SecretGenerator       []struct{ Files []string }
}

// isKustomization reports whether kustomize would read a file by its name.
func isKustomization(file string) bool {
	base := filepath.Base(file)
	return base == "kustomization.yaml" || base == "kustomization.yml"
}

// Reasons why parts are skipped.
const (
	patchPart  = "a patch of kustomize; check what kustomize build prints"
	unusedPart = "a patch beside a kustomization.yaml that does not list it"
	dataPart   = "data of a ConfigMap or Secret that kustomize makes"
	namedPatch = "a patch by its name, which no kustomization.yaml lists as a resource"
)

// kustomizeParts returns why files are skipped: those that the kustomization.yaml files among them
// use as patches, replacements, configurations or data, and those that are patches by their name and
// that no kustomization lists as a resource. The name "patch" is one in any folder; other names are in
// folders of kustomize.
func (o Options) kustomizeParts(files []string) map[string]string {
	out := map[string]string{}
	listed, folders := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		if !isKustomization(file) {
			continue
		}
		dir := filepath.Dir(file)
		folders[dir] = true
		text, err := o.read(file, nil)
		if err != nil {
			continue // reading it again reports the error
		}
		var k kustomization
		if yaml.Unmarshal(text, &k) != nil {
			continue
		}
		for _, name := range k.Resources {
			listed[filepath.Join(dir, name)] = true
		}
		for name, reason := range k.parts() {
			out[filepath.Join(dir, name)] = reason
		}
	}
	for _, file := range files {
		file = filepath.Clean(file)
		switch {
		case out[file] != "" || listed[file]:
		case isPatchName(file, folders):
			out[file] = unusedPart
		case strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) == "patch":
			out[file] = namedPatch
		}
	}
	for file := range listed {
		delete(out, file) // one is enough to make it an object
	}
	return out
}

// parts returns the files that it uses as parts, with the reason why they are skipped.
func (k *kustomization) parts() map[string]string {
	out := map[string]string{}
	for _, one := range slices.Concat(k.ConfigMapGenerator, k.SecretGenerator) {
		for _, name := range one.Files {
			if _, path, ok := strings.Cut(name, "="); ok { // key=path
				name = path
			}
			out[name] = dataPart
		}
	}
	names := slices.Concat(k.PatchesStrategicMerge, k.Configurations)
	for _, one := range slices.Concat(k.Patches, k.PatchesJSON6902, k.Replacements) {
		names = append(names, one.Path)
	}
	for _, name := range names {
		if name != "" && !strings.Contains(name, "\n") { // patches may be written in place
			out[name] = patchPart
		}
	}
	return out
}

// isPatchName reports whether a file is a patch by the usual names: in a folder patches of a folder
// with a kustomization.yaml, or with the word patch first or last in its name, beside one.
func isPatchName(file string, folders map[string]bool) bool {
	dir := filepath.Dir(file)
	if filepath.Base(dir) == "patches" && (folders[dir] || folders[filepath.Dir(dir)]) {
		return !isKustomization(file)
	}
	name := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), "_", "-")
	return folders[dir] && (name == "patch" || strings.HasPrefix(name, "patch-") || strings.HasSuffix(name, "-patch"))
}
