package builtin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/schema"
)

// TestOrderOfErrors compares the order of an object's errors. The order is upstream's
// where upstream has one, otherwise that of the keys, and never that of an iteration over a map.
func TestOrderOfErrors(t *testing.T) {
	const own = "spec.securityContext."
	const ofContainer = "spec.containers[0].securityContext."
	for _, c := range []struct {
		line                int
		group, plural, text string
		want                []string // fields that are forbidden, and names of annotations
	}{
		{where(), "", "pods", `spec: {os: {name: windows}, resources: {requests: {cpu: 1}}, hostUsers: false, hostPID: true, hostIPC: true, shareProcessNamespace: false,
			securityContext: {appArmorProfile: {type: RuntimeDefault}, seLinuxOptions: {level: a}, seccompProfile: {type: RuntimeDefault}, fsGroup: 1, fsGroupChangePolicy: Always,
				runAsUser: 1, runAsGroup: 1, supplementalGroups: [1], supplementalGroupsPolicy: Merge, seLinuxChangePolicy: Recursive},
			containers: [{name: c, image: i, securityContext: {appArmorProfile: {type: RuntimeDefault}, seLinuxOptions: {level: a}, seccompProfile: {type: RuntimeDefault},
				capabilities: {}, readOnlyRootFilesystem: true, privileged: true, allowPrivilegeEscalation: true, procMount: Default, runAsUser: 1, runAsGroup: 1}}]}`,
			[]string{"spec.HostPID", "spec.HostIPC", "spec.resources", own + "appArmorProfile", own + "seLinuxOptions", own + "seccompProfile", own + "fsGroup", own + "fsGroupChangePolicy", own + "runAsUser",
				own + "runAsGroup", own + "supplementalGroups", own + "supplementalGroupsPolicy", own + "seLinuxChangePolicy",
				"spec.hostUsers", "spec.hostPID", "spec.hostIPC", "spec.shareProcessNamespace",
				ofContainer + "appArmorProfile", ofContainer + "seLinuxOptions", ofContainer + "seccompProfile", ofContainer + "capabilities",
				ofContainer + "readOnlyRootFilesystem", ofContainer + "privileged", ofContainer + "allowPrivilegeEscalation", ofContainer + "procMount",
				ofContainer + "runAsUser", ofContainer + "runAsGroup"}},
		{where(), "", "pods", `spec: {volumes: [{name: v, projected: {sources: [{podCertificate: {signerName: a.b/c, keyType: ED25519, credentialBundlePath: p,
			userAnnotations: {a: x, b: x, c: x, d: x, e: x, f: x}}}]}}], containers: [{name: c, image: i}]}`,
			[]string{"a", "b", "c", "d", "e", "f"}},
		{where(), "certificates.k8s.io", "podcertificaterequests", `spec: {unverifiedUserAnnotations: {a: x, b: x, c: x, d: x, e: x, f: x}}`,
			[]string{"a", "b", "c", "d", "e", "f"}},
	} {
		v := versionFor(t, c.group, c.plural)
		d := read(t, v, c.text)
		v.PrepareCreate(d)
		var got []string
		for _, e := range v.Validate(context.Background(), d, nil, schema.Whole).Errors {
			switch at := strings.ToLower(e.Field); {
			case strings.HasSuffix(at, "userannotations"):
				got = append(got, fmt.Sprint(e.BadValue))
			case e.Type == field.ErrorTypeForbidden:
				got = append(got, e.Field)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("line %d: got errors of\n%q, want\n%q", c.line, got, c.want)
		}
	}
}
