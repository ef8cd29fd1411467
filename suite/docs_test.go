package suite_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/suite"
)

// policies are those that docs/testing.md speaks of.
const policies = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: small}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules:
    - {apiGroups: [example.com], apiVersions: [v1], operations: ["*"], resources: [widgets]}
  validations:
  - expression: request.operation == 'DELETE' || object.spec.size <= int(params.data.limit)
    messageExpression: "'size must be at most ' + params.data.limit"
  - {expression: "request.operation != 'DELETE' || 'system:masters' in request.userInfo.groups", message: only administrators}
  auditAnnotations:
  - {key: size, valueExpression: string(object.spec.size)}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: prod}
spec:
  policyName: small
  paramRef: {name: limits, parameterNotFoundAction: Deny}
  matchResources: {namespaceSelector: {matchLabels: {env: prod}}}
  validationActions: [Deny]
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: limits, namespace: prod}, data: {limit: "3"}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: prod, labels: {env: prod}}}
`

// TestDocsAreTrue runs the suites in docs/testing.md, and checks that its Go code is in the
// examples, which compile.
func TestDocsAreTrue(t *testing.T) {
	docs, err := os.ReadFile("../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	// The first suite is a file that a script writes.
	blocks := regexp.MustCompile("(?s)(?:```(yaml|go)|cat > tests/widgets.yaml <<'END')\n(.*?)(?:```|END\n)").FindAllStringSubmatch(string(docs), -1)
	if len(blocks) != 4 {
		t.Fatalf("got %d blocks, want two suites and two of Go", len(blocks))
	}
	for _, b := range blocks {
		if b[1] == "go" {
			if !strings.Contains(string(examples), b[2]) {
				t.Errorf("not in example_test.go:\n%s", b[2])
			}
			continue
		}
		s, err := suite.Parse("testing.md", []byte(b[2]), func(path string) ([]byte, error) {
			if path == "policies/" {
				return []byte(policies), nil
			}
			return []byte(definition), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, r := range s.Run(t.Context(), nil) {
			if !r.Passed {
				t.Errorf("%s: %v", r.Case, r.Failures)
			}
		}
	}
}
