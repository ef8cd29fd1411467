package cel_test

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	kcel "github.com/keelson-io/keelson/cel"
)

// This file compares the environments of older versions of Kubernetes: which
// expressions compile in each, for new ones and for stored ones, and what they
// evaluate to.

// introductions are expressions with something that one version introduced, and
// what no version ever had in rules.
var introductions = []string{
	"url('https://a/b').getHost() == 'a'", "'abc'.find('b') == 'b'", "[1, 2].isSorted()", "[1].indexOf(1) == 0", // from the beginning
	"1 < 1.5", "1u < 2", "optional.of(1).hasValue()", "self.?s.orValue('') == ''", "[1, 2].first().value() == 1", "optional.unwrap([optional.of(1)]) == [1]", "self.?s.optMap(x, x + 'a').hasValue()", // 1.28
	"quantity('1k').isInteger()", "isQuantity('1')", "sign(quantity('1')) == 1",
	"'%d'.format([1]) == '1'", "strings.quote('a') == 'a'", "['a'].join() == 'a'", "[1].join() == ''", "sets.contains([1], [1])", // 1.29
	"'a'.replace('a', 'b') == 'b'", "'a b'.split(' ').size() == 2", "'abc'.charAt(1) == 'b'", "' a '.trim() == 'a'", "'A'.lowerAscii() == 'a'", // strings of every version
	"duration('x') == duration('1s')", "timestamp('x') == timestamp('y')", "'a'.matches('(')", "'a'.find('(') == ''", "[1, 'a'].size() == 2", "{'a': 1, 'b': 'c'}.size() == 2",
	"ip('10.0.0.1').family() == 4", "cidr('10.0.0.0/8').containsIP('10.1.1.1')", "isCIDR('x')", "type(ip('::1')) == net.IP", // 1.30
	"format.dns1123Label().validate('a').hasValue()", "format.named('uri').hasValue()", "self.namespace == 'x'", "self.__namespace__ == 'x'", // 1.31
	"[1, 2].all(i, v, i < v)", "[1].transformList(i, v, i + v) == [1]", "{'a': 1}.transformMap(k, v, v) == {'a': 1}", "['a'].transformMapEntry(i, v, {v: i}) == {'a': 0}", "[1].exists_one(i, v, v == 1)", "[1].existsOne(i, v, v == 1)", // 1.32
	"semver('1.2.3').major() == 1", "isSemver('v1', true)", "semver('v1', true) == semver('1.0.0')", // 1.33
	"[3, 1].sort() == [1, 3]", "[[1]].flatten() == [1]", "lists.range(3) == [0, 1, 2]", "[1, 1].distinct() == [1]", "[1, 2].slice(0, 1) == [1]", "[1, 2].reverse() == [2, 1]", "[2, 1].sortBy(x, x) == [1, 2]", // 1.34
	"[1].includes(1)", "dyn(1).includes(1)", // 1.37
	"cel.bind(x, 1, x == 1)", "math.greatest(1, 2) == 2", "base64.encode(b'a') == 'YQ=='", "'ab'.reverse() == 'ba'", "jsonpatch.escapeKey('a') == 'a'", "[1].existsOne(x, x == 1)", "json.encode(1) == '1'", "duration(1) == duration('1s')", "regex.extract('a', 'a').hasValue()",
	"self.`s` == 'a'", "'a'.matches('a') && matches('a', 'a')", "int('x') == 1", "self.n == self.n", "self.s.startsWith('a')", "authorizer.path('/').check('get').allowed()",
	"dyn(1).path('/').check('get').allowed()",            // 1.27: the functions, though there is no authorizer
	"dyn(1).fieldSelector('a=b').check('get').allowed()", // 1.31
}

// environmentVersions are the versions whose environments differ from those of the
// version before, and a few that must not.
var environmentVersions = []uint{0, 20, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37}

const environmentSchema = `{type: object, properties: {s: {type: string}, n: {type: integer}, namespace: {type: string}, l: {type: array, maxItems: 9, items: {type: string}}, o: {type: object, properties: {a: {type: integer}}}}}`

// TestEnvironments compiles and evaluates in the environments of every version.
func TestEnvironments(t *testing.T) {
	s := structural(t, environmentSchema)
	data := parseData(t, "{s: abc, n: 3, namespace: x, l: [b, a], o: {a: 1}}")
	expressions := append(introductions, tableExpressions(t)...)
	for _, minor := range environmentVersions {
		set := environment.MustBaseEnvSet(version.MajorMinor(1, minor))
		for _, stored := range []bool{false, true} {
			t.Run(fmt.Sprintf("1.%d stored %t", minor, stored), func(t *testing.T) {
				up := upstreamOf(t, set, s, stored)
				env, err := kcel.NewEnv(kcel.EnvOptions{Version: fmt.Sprintf("1.%d", minor), Stored: stored})
				if err != nil {
					t.Fatal(err)
				}
				b := newBuilder()
				self := b.build(s, false)
				our := &subject{b, self, env.Types()}
				compiled := 0
				for _, expr := range expressions {
					want, got := normal(up.run(expr, data, data)), normal(our.run(t, expr, data, data))
					if want != got && !known(expr, want, got) {
						t.Errorf("%s\n\tupstream %v\n\tkeelson  %v", expr, want, got)
					}
					if got.compile == "" {
						compiled++
					}
				}
				t.Logf("%d of %d expressions compile", compiled, len(expressions))
				if compiled == 0 || compiled == len(expressions) {
					t.Error("no expression tells versions apart")
				}
			})
		}
	}
}

// upstreamOf is upstream's environment of a set for new or for stored expressions.
func upstreamOf(t *testing.T, base *environment.EnvSet, s *schema.Structural, stored bool) *upstream {
	t.Helper()
	decl := model.SchemaDeclType(s, false).MaybeAssignTypeName("selfType")
	set, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        []cel.EnvOption{cel.Variable("self", decl.CelType()), cel.Variable("oldSelf", decl.CelType())},
		DeclTypes:         []*apiservercel.DeclType{decl},
	})
	if err != nil {
		t.Fatal(err)
	}
	env := set.NewExpressionsEnv()
	if stored {
		env = set.StoredExpressionsEnv()
	}
	return &upstream{s, false, decl, env}
}

var member = regexp.MustCompile(`\b(self|oldSelf)\b`)

// tableExpressions are those expressions of the table that need no member.
func tableExpressions(t *testing.T) (out []string) {
	file, err := os.Open("testdata/expressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "schema ") || strings.HasPrefix(line, "data ") || member.MatchString(line) {
			continue
		}
		out = append(out, line)
	}
	return out
}
