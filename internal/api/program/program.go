// Package program knows the version of the program, and what /version answers.
package program

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"sync"
)

// The version of the Kubernetes API that is served, which clients compare with their own.
const (
	Kubernetes = major + "." + minor

	major   = "1"
	minor   = "37"
	version = "v" + Kubernetes + ".2"
)

// Version is the answer of /version, with the member names of Kubernetes. Empty fields are filled
// in with what the program knows about itself.
type Version struct {
	Major                 string `json:"major"`
	Minor                 string `json:"minor"`
	EmulationMajor        string `json:"emulationMajor,omitempty"`
	EmulationMinor        string `json:"emulationMinor,omitempty"`
	MinCompatibilityMajor string `json:"minCompatibilityMajor,omitempty"`
	MinCompatibilityMinor string `json:"minCompatibilityMinor,omitempty"`
	GitVersion            string `json:"gitVersion"`
	GitCommit             string `json:"gitCommit"`
	GitTreeState          string `json:"gitTreeState"`
	BuildDate             string `json:"buildDate"`
	GoVersion             string `json:"goVersion"`
	Compiler              string `json:"compiler"`
	Platform              string `json:"platform"`
}

// release is the version of a release, which the linker sets; otherwise it is empty.
var release string

// buildInfo is what the program was built from. It is parsed once: the record of each write of a
// controller names the program.
var buildInfo = sync.OnceValues(debug.ReadBuildInfo)

// Release returns the version of this program: that of the release, of its module, or the
// commit that it was built from.
func Release() string {
	if release != "" {
		return release
	}
	info, ok := buildInfo()
	if ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "v0.0.0-dev"
}

// Fill fills in what is empty.
func (v Version) Fill() Version {
	set := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	set(&v.Major, major)
	set(&v.Minor, minor)
	set(&v.EmulationMajor, v.Major)
	set(&v.EmulationMinor, v.Minor)
	set(&v.MinCompatibilityMajor, v.Major)
	set(&v.MinCompatibilityMinor, "36")
	set(&v.GitVersion, version+"+keelson."+semverBuild(Release()))
	set(&v.GoVersion, runtime.Version())
	set(&v.Compiler, runtime.Compiler)
	set(&v.Platform, runtime.GOOS+"/"+runtime.GOARCH)
	if info, ok := buildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				set(&v.GitCommit, s.Value)
			case "vcs.time":
				set(&v.BuildDate, s.Value)
			case "vcs.modified":
				state := "clean"
				if s.Value == "true" {
					state = "dirty"
				}
				set(&v.GitTreeState, state)
			}
		}
	}
	set(&v.GitTreeState, "archive")
	set(&v.BuildDate, "1970-01-01T00:00:00Z")
	return v
}

// semverBuild makes text fit for the build part of a semantic version.
func semverBuild(text string) string {
	b := []byte(text)
	for i, c := range b {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '.') {
			b[i] = '.'
		}
	}
	return string(b)
}

// JSON returns the answer of /version.
func (v Version) JSON() []byte {
	body, err := json.Marshal(v.Fill())
	if err != nil {
		panic("BUG: version does not marshal: " + err.Error())
	}
	return body
}
