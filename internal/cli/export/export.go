// Package export has the command "export" of keelson: the objects of a server, a snapshot or files, written to a database.
package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/internal/atrest"
	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/store/encrypt"
	"github.com/keelson-io/keelson/internal/store/etcd"
)

// options are the flags of export.
type options struct {
	to         string // the URL of a database
	snapshot   string
	kubeconfig string
	context    string
	kinds      []string // as Kind or Kind.group; empty for all
	follow     bool
	exclude    []string
}

// Command returns the command "export".
func Command() *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   "export --to DATABASE [OBJECT]...",
		Short: "Write objects to the tables of an SQL database",
		Long: `Export makes a database mirror its source: each kind has a table, and each object a row. "keelson query" finds objects there by CEL
expressions, and every program that knows SQL can read them.

DATABASE is sqlite://FILE, which is created if it does not exist, or the URL of a PostgreSQL database, as psql takes it. The source is one of these:

  OBJECT...    files of YAML or JSON documents, folders of such files, globs (** matches any number of folders), or "-" for standard
               input.
  --snapshot   a file of "keelson snapshot save". Objects have the versions in which they were stored. Encrypted ones are refused.
  a server     otherwise. Like kubectl, the command finds it by --kubeconfig, the variable KUBECONFIG, or ~/.kube/config. Each kind
               is listed in the preferred version of its group.

The name of a table is the kind and the group, in lower-case letters with underscores in place of other characters:
httproute_gateway_networking_k8s_io, configmap. Its columns are namespace, name, uid, resource_version, labels (JSON) and doc (the
object as JSON). The primary key is (namespace, name). The table keelson_kinds lists the tables.

A repeated export updates the rows of objects that changed, and removes the rows of objects, and of kinds, that the source does not
have any more; with --kind, only those of the named kinds. If an export is interrupted, the database is consistent, and the next
export completes it; a server's list continues where it was.

With --follow, the command then writes every change of the server's objects, until a signal ends it. If it is started again, it
continues from the change where it was; kinds whose changes the server no longer knows are listed again. New kinds are found
within ten seconds.

Objects that a database cannot hold, such as those with the character U+0000 in a text, are reported and have no row. The command
then fails after it has written all others.`,
		Example: `  keelson export --to sqlite://objects.db deploy/
  kubectl get widgets -A -o yaml | keelson export --to sqlite://widgets.db -`,
		Annotations: command.Page("every object is in the database", "an object cannot be written, or the database or the source cannot be used",
			"keelson help query, keelson help eval", "docs/sql.md: data at rest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", "`URL` of the database: sqlite://FILE or postgres://USER:PASSWORD@HOST/DATABASE")
	f.StringVar(&o.snapshot, "snapshot", "", "`file` of keelson snapshot save to export")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says where the server is")
	f.StringVar(&o.context, "context", "", "`name` of the context in it; its current one if there is none")
	f.StringArrayVar(&o.kinds, "kind", nil, "kind to export, as Kind or Kind.group; by default all; may be repeated")
	f.BoolVar(&o.follow, "follow", false, "go on with what changes on the server, until a signal")
	f.StringArrayVar(&o.exclude, "exclude", nil, "glob of files and folders to leave out; without a slash, it matches names at any depth; may be repeated")
	return cmd
}

// check returns an error if flags and arguments do not go together.
func (o *options) check(paths []string) error {
	switch isServer := len(paths) == 0 && o.snapshot == ""; {
	case o.to == "":
		return command.UsageError(errors.New("export: no database is named: --to sqlite://FILE"))
	case len(paths) > 0 && o.snapshot != "":
		return command.UsageError(fmt.Errorf("export: got %q and --snapshot, want one source", paths[0]))
	case !isServer && o.follow:
		return command.UsageError(errors.New("--follow: only a server has changes to follow; leave out OBJECT and --snapshot"))
	case !isServer && (o.kubeconfig != "" || o.context != ""):
		return command.UsageError(errors.New("export: got a server and another source, want one source"))
	}
	return command.OnceStdin(paths)
}

// export is a run of the command.
type export struct {
	*options
	ctx      context.Context
	to       *atrest.Database
	notes    io.Writer
	count    *command.Counter
	objects  int
	removed  int64
	exported []atrest.Kind
	from     *serverExport // nil unless the source is a server

	mu      sync.Mutex // for what follows
	refused int        // objects
	failed  int        // kinds
}

// run exports objects and prints their number.
func (o *options) run(cmd *cobra.Command, paths []string) error {
	if err := o.check(paths); err != nil {
		return err
	}
	e := &export{options: o, ctx: cmd.Context(), notes: cmd.ErrOrStderr()}
	e.count = command.NewCounter(e.notes, "exported", 0)
	defer e.count.Done()
	source, err := e.source(cmd, paths)
	if err != nil {
		return err
	}
	if e.to, err = atrest.Open(e.ctx, o.to, atrest.Write); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer e.to.Close()
	if err := source(); err != nil {
		return err
	}
	if len(o.kinds) == 0 && (e.from == nil || len(e.from.stale) == 0) {
		n, err := e.to.RemoveOthers(e.ctx, e.exported)
		e.removed += n
		if err != nil {
			return err
		}
	}
	e.count.Done()
	e.summarize(cmd.OutOrStdout())
	if o.follow {
		if err := e.followServer(); err != nil {
			return err
		}
	}
	switch {
	case e.failed > 0:
		return fmt.Errorf("%s not exported", command.Plural(e.failed, "resource"))
	case e.refused > 0:
		return fmt.Errorf("%s not exported", command.Plural(e.refused, "object"))
	}
	return e.to.Close()
}

// source opens the source, and returns the function that exports it.
func (e *export) source(cmd *cobra.Command, paths []string) (func() error, error) {
	switch {
	case e.snapshot != "":
		return e.openSnapshot()
	case len(paths) == 0:
		return e.openServer()
	}
	read := manifest.Options{Exclude: e.exclude, ObjectsOnly: true}
	if err := read.Check(); err != nil {
		return nil, command.UsageError(fmt.Errorf("--exclude: %w", err))
	}
	in, err := read.Read(paths, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	e.count.Total = len(in.Documents)
	return func() error { return e.files(in) }, nil
}

// summarize prints the number of objects.
func (e *export) summarize(out io.Writer) {
	text := fmt.Sprintf("%s exported", command.Plural(e.objects, "object"))
	if n := len(e.exported); n > 0 {
		text += " of " + command.Plural(n, "kind")
	}
	if e.removed > 0 {
		text += fmt.Sprintf(", %s removed", command.Plural(int(e.removed), "row"))
	}
	fmt.Fprintln(out, text)
}

// isWanted reports whether a kind is exported.
func (e *export) isWanted(k atrest.Kind) bool {
	return len(e.kinds) == 0 || slices.Contains(e.kinds, k.Kind) || slices.Contains(e.kinds, k.String())
}

// refuse reports an object that is not exported.
func (e *export) refuse(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count.Done()
	e.refused++
	fmt.Fprintf(e.notes, "keelson: %v\n", err)
}

// files exports the objects of files.
func (e *export) files(in *manifest.Input) error {
	if n := len(in.Skipped); n > 0 {
		fmt.Fprintf(e.notes, "keelson: skipped: %s that no server takes as an object, such as %s: %s\n", command.Plural(n, "text"), in.Skipped[0], in.Skipped[0].Reason)
	}
	texts := map[atrest.Kind][]atrest.Text{}
	for i := range in.Documents {
		d := &in.Documents[i]
		h, ok := d.Head()
		switch k := atrest.KindOf(h.APIVersion, h.Kind); {
		case d.Err != nil:
			e.refuse(d.Err)
		case !ok:
			e.refuse(fmt.Errorf("%s: not an object with an apiVersion and a kind", d))
		default:
			texts[k] = append(texts[k], atrest.Text{JSON: d.JSON, Place: d.String()})
		}
	}
	return e.mirror(texts)
}

// mirror exports objects by their kinds.
func (e *export) mirror(texts map[atrest.Kind][]atrest.Text) error {
	for _, k := range slices.SortedFunc(maps.Keys(texts), func(a, b atrest.Kind) int { return strings.Compare(a.String(), b.String()) }) {
		if !e.isWanted(k) {
			continue
		}
		n, err := e.to.Mirror(e.ctx, k, slices.Values(texts[k]), e.refuse, e.count.Add)
		e.exported = append(e.exported, k)
		e.objects += n.Objects
		e.removed += n.Removed
		if err != nil {
			return err
		}
	}
	return nil
}

// bookkeeping has the resources of a snapshot that no API serves: servers of Kubernetes keep addresses
// there, and their own.
var bookkeeping = []string{"ranges", "masterleases"}

// openSnapshot reads a snapshot.
func (e *export) openSnapshot() (func() error, error) {
	values, err := etcd.ReadValues(e.snapshot, func(key string) bool {
		resource, ok := command.ResourceOf(key)
		return ok && !slices.Contains(bookkeeping, resource)
	})
	if err != nil {
		return nil, err
	}
	e.count.Total = len(values)
	return func() error {
		texts := map[atrest.Kind][]atrest.Text{}
		for _, v := range values {
			if with := encrypt.Describe(v.Bytes); with != "" {
				e.refuse(fmt.Errorf("%s: it is encrypted with %s", v.Key, with))
				continue
			}
			var d manifest.Document
			d.SetJSON(v.Bytes)
			h, ok := d.Head()
			if !ok {
				e.refuse(fmt.Errorf("%s: not an object in JSON", v.Key))
				continue
			}
			k := atrest.KindOf(h.APIVersion, h.Kind)
			texts[k] = append(texts[k], atrest.Text{JSON: v.Bytes, Place: v.Key, ResourceVersion: strconv.FormatInt(v.Revision, 10)})
		}
		return e.mirror(texts)
	}, nil
}
