package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/internal/cli"
	"github.com/keelson-io/keelson/internal/cli/command"
)

// This file writes more of the reference from the code: exit codes, JSON documents, IDs of findings.

// exitCodesPage returns the page of the exit codes, from the help of the commands.
func exitCodesPage() (string, error) {
	var b strings.Builder
	b.WriteString("# Exit codes\n\nEach command ends with 0, 1 or 2. Results go to standard output, everything else to standard error. `keelson help COMMAND` has\n" +
		"the same words. 2 means that the command line is wrong: a flag is unknown or has a wrong value, or an argument is missing.\n\n" +
		"| Command | 0 | 1 |\n| --- | --- | --- |\n")
	rows := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if lines := strings.Split(command.ExitStatus(c), "\n"); len(lines) == 3 {
			cell := func(line string) string { return strings.ReplaceAll(strings.TrimSpace(line[1:]), "|", "\\|") }
			fmt.Fprintf(&b, "| [%s](/commands/%s/) | %s | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), cell(lines[0]), cell(lines[1]))
			rows++
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(cli.Command())
	if rows < 10 {
		return "", fmt.Errorf("got the exit codes of %d commands", rows)
	}
	return b.String(), nil
}

// documents are the JSON documents with an envelope: kind, command, and type, after the name of its package.
var documents = [][3]string{
	{"ValidateReport", "keelson validate -o json", "cli.validateReport"},
	{"LintReport", "keelson lint -o json", "cli.lintDocument"},
	{"TestReport", "keelson test -o json", "cli.testReport"},
	{"WitnessReport", "keelson witness -o json", "cli.witnessReport"},
	{"DoctorReport", "keelson doctor -o json", "doctor.report"},
	{"SnapshotStatus", "keelson snapshot status -o json", "snapshot.status"},
}

// formsPage returns the page of the JSON documents, from the Go types that are printed.
func formsPage(root string) (string, error) {
	t, err := parseTypes(root, "internal/cli", "internal/cli/doctor", "internal/cli/snapshot", "internal/manifest", "internal/coverage", "lint", "suite", "schema", "cel")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# JSON documents\n\nThe documents that commands print with `-o json`. Each begins with `apiVersion: cli.keelson.io/v1` and its kind. Fields may be\n" +
		"added to a version; none disappears or changes its meaning. A field that can be absent is left out if it is empty. Lines and columns\ncount from 1. " +
		"The other formats of `validate`, `lint` and `test` are described in [Manifests on a build server](/ci/#formats).\n")
	for _, d := range documents {
		fmt.Fprintf(&b, "\n## %s\n\n`%s`\n", d[0], d[1])
		pkg, name, _ := strings.Cut(d[2], ".")
		if err := t.write(&b, pkg, name, map[string]bool{}); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// configurations are the files that commands read: kind, apiVersion, where it is named, and type.
var configurations = [][4]string{
	{"AuthorizationConfiguration", "apiserver.config.k8s.io/v1", "`keelson serve --authorization-config`, `keelson authz --config`", "config.AuthorizationConfiguration"},
	{"AuthenticationConfiguration", "apiserver.config.k8s.io/v1", "`keelson serve --authentication-config`", "jwt.Configuration"},
	{"EncryptionConfiguration", "apiserver.config.k8s.io/v1", "`keelson serve --encryption-provider-config`", "encrypt.Configuration"},
	{"Policy", "audit.k8s.io/v1", "`keelson serve --audit-policy-file`", "audit.Policy"},
	{"AdmissionConfiguration", "apiserver.config.k8s.io/v1", "`keelson serve --admission-control-config-file`", "plugins.admissionConfiguration"},
	{"WebhookAdmissionConfiguration", "apiserver.config.k8s.io/v1", "the plugins MutatingAdmissionWebhook and ValidatingAdmissionWebhook", "plugins.webhookConfiguration"},
	{"MutatingAdmissionPolicyConfiguration, ValidatingAdmissionPolicyConfiguration", "apiserver.config.k8s.io/v1", "the plugins MutatingAdmissionPolicy and ValidatingAdmissionPolicy", "plugins.policyConfiguration"},
	{"PodSecurityConfiguration", "pod-security.admission.config.k8s.io/v1", "the plugin PodSecurity", "podsecurity.Configuration"},
	{"ResourceQuotaConfiguration", "apiserver.config.k8s.io/v1", "the plugin ResourceQuota", "quota.Configuration"},
	{"EventRateLimit: Configuration", "eventratelimit.admission.k8s.io/v1alpha1", "the plugin EventRateLimit", "eventrate.Configuration"},
	{"PodTolerationRestriction: Configuration", "podtolerationrestriction.admission.k8s.io/v1alpha1", "the plugin PodTolerationRestriction", "plugins.tolerationConfiguration"},
	{".keelson.yaml: Configuration", "cli.keelson.io/v1", "`keelson validate` and `keelson lint` in a repository", "settings.Settings"},
}

// configurationPage returns the page of the files that commands read, from the Go types that they are decoded into.
func configurationPage(root string) (string, error) {
	t, err := parseTypes(root, "internal/authz/config", "internal/authn/jwt", "internal/store/encrypt", "internal/audit", "internal/admission/plugins",
		"internal/admission/podsecurity", "internal/admission/quota", "internal/admission/eventrate", "internal/settings")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Configuration files\n\nEach file begins with its `apiVersion` and `kind`; older versions of Kubernetes' kinds are read, too. A field that a file does not\n" +
		"know is an error with its line (in an audit policy it is a warning, as in Kubernetes). Durations are written like `30s` or `5m`.\n" +
		"The form of conversions is on [its page](/conversion/), that of suites on [Testing definitions](/testing/).\n")
	for _, c := range configurations {
		fmt.Fprintf(&b, "\n## %s\n\n`apiVersion: %s`, for %s.\n", c[0], c[1], c[2])
		pkg, name, _ := strings.Cut(c[3], ".")
		if err := t.write(&b, pkg, name, map[string]bool{}); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// types has the structs of packages, by package.Type.
type types map[string]*ast.StructType

// parseTypes parses the structs of folders.
func parseTypes(root string, folders ...string) (types, error) {
	out := types{}
	for _, folder := range folders {
		files, err := parseFolder(filepath.Join(root, folder))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok {
					if s, ok := spec.Type.(*ast.StructType); ok {
						out[f.Name.Name+"."+spec.Name.Name] = s
					}
				}
				return true
			})
		}
	}
	return out, nil
}

// parseFolder parses the files of a folder, without its tests.
func parseFolder(folder string) ([]*ast.File, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, errors.New(folder + ": no files")
	}
	return files, nil
}

// write writes the table of a struct, and after it those of the structs in its fields.
func (t types) write(b *strings.Builder, pkg, name string, seen map[string]bool) error {
	s := t[pkg+"."+name]
	if s == nil {
		return fmt.Errorf("no struct %s.%s", pkg, name)
	}
	seen[pkg+"."+name] = true
	b.WriteString("\n| Field | Type | Meaning |\n| --- | --- | --- |\n")
	var inner [][2]string
	for _, f := range s.Fields.List {
		if f.Tag == nil {
			if len(f.Names) == 0 { // the envelope
				b.WriteString("| `apiVersion`, `kind` | string | the envelope |\n")
			}
			continue
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return err
		}
		key, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if key == "-" || key == "" {
			continue
		}
		what, of := t.describe(pkg, f.Type)
		if of != [2]string{} && !seen[of[0]+"."+of[1]] && !slices.Contains(inner, of) {
			inner = append(inner, of)
		}
		if strings.Contains(options, "omitempty") {
			what += ", can be absent"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", key, what, comment(f))
	}
	for _, of := range inner {
		if seen[of[0]+"."+of[1]] {
			continue
		}
		fmt.Fprintf(b, "\n%s:\n", title(of[1]))
		if err := t.write(b, of[0], of[1], seen); err != nil {
			return err
		}
	}
	return nil
}

// describe returns a type in words, and the struct that it has, if its fields are to be described.
func (t types) describe(pkg string, e ast.Expr) (string, [2]string) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return t.describe(pkg, e.X)
	case *ast.ArrayType:
		what, of := t.describe(pkg, e.Elt)
		return "list of " + what, of
	case *ast.MapType:
		what, of := t.describe(pkg, e.Value)
		return "map of " + what, of
	case *ast.Ident:
		if t[pkg+"."+e.Name] != nil {
			return title(e.Name), [2]string{pkg, e.Name}
		}
		return plainType(e.Name), [2]string{}
	case *ast.SelectorExpr:
		from := e.X.(*ast.Ident).Name
		switch {
		case t[from+"."+e.Sel.Name] != nil:
			return title(e.Sel.Name), [2]string{from, e.Sel.Name}
		case e.Sel.Name == "Duration" && from == "metav1":
			return "duration", [2]string{}
		case from == "metav1", from == "corev1":
			return "Kubernetes " + e.Sel.Name, [2]string{}
		}
		return plainType(from + "." + e.Sel.Name), [2]string{}
	}
	return "value", [2]string{}
}

// plainType returns a basic type in words.
func plainType(name string) string {
	switch name {
	case "string", "Severity", "PartOutcome", "schema.GoalKind", "Level", "Stage":
		return "string"
	case "bool":
		return "true or false"
	case "int", "int32", "int64", "uint64", "time.Duration":
		return "integer"
	case "float64":
		return "number"
	case "json.RawMessage", "any":
		return "any JSON"
	}
	return name
}

// title returns the name of a struct as a word: verdict is Verdict.
func title(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// comment returns the comment of a field as the cell of a table.
func comment(f *ast.Field) string {
	text := f.Comment.Text()
	if text == "" {
		text = f.Doc.Text()
	}
	return strings.NewReplacer("\n", " ", "|", "\\|", "<", "&lt;").Replace(strings.TrimSpace(text))
}

// findingID matches the IDs of findings of lint.
var findingID = regexp.MustCompile(`^(server|rule|cost|draft|contradiction|no-effect|unchecked|conflict|change|type|binding)/[a-z-]+$`)

// findingsPage returns the page of the IDs of findings, from the constants of validate and the texts
// of lint.
func findingsPage(root string) (string, error) {
	var b strings.Builder
	b.WriteString("# IDs of findings\n\nSettings suppress findings by these IDs, baselines record them, and `-o json`, `sarif` and `junit` have them. None changes its\nmeaning. " +
		"[On a build server](/ci/#settings-of-a-repository) says how to suppress one.\n\n## validate\n\n" +
		"Besides these, the causes and reasons of the server's answer: `FieldValueInvalid`, `FieldValueRequired`, `Forbidden` and so on.\n\n| ID | Mistake |\n| --- | --- |\n")
	files, err := parseFolder(filepath.Join(root, "internal/cli"))
	if err != nil {
		return "", err
	}
	rules := 0
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if ok && len(v.Names) == 1 && len(v.Values) == 1 && strings.HasPrefix(v.Names[0].Name, "rule") && v.Comment != nil {
				if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					fmt.Fprintf(&b, "| `%s` | %s |\n", strings.Trim(lit.Value, `"`), strings.TrimSpace(v.Comment.Text()))
					rules++
				}
			}
			return true
		})
	}
	if files, err = parseFolder(filepath.Join(root, "lint")); err != nil {
		return "", err
	}
	ids := map[string]bool{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && findingID.MatchString(strings.Trim(lit.Value, `"`)) {
				ids[strings.Trim(lit.Value, `"`)] = true
			}
			return true
		})
	}
	if rules < 5 || len(ids) < 8 {
		return "", fmt.Errorf("got %d rules of validate and %d IDs of lint", rules, len(ids))
	}
	b.WriteString("| `Policy/NAME` | the admission policy NAME denies the object, or cannot decide about it |\n\n## lint\n\nAn ID is the check, a slash, and what it is about. [Checking definitions](/lint/#findings) describes the checks, and the second\n" +
		"parts that are keywords of a schema or types of a server's error, such as `no-effect/maxLength`. The others are:\n\n")
	var sorted []string
	for id := range ids {
		sorted = append(sorted, "`"+id+"`")
	}
	slices.Sort(sorted)
	b.WriteString("- " + strings.Join(sorted, "\n- ") + "\n\n## test\n\n`Case` is a case whose result differs, `Suite` a suite that could not run.\n")
	return b.String(), nil
}
