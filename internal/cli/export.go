// This file has the command "export".

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/internal/atrest"
	"github.com/keelson-io/keelson/internal/manifest"
)

// exportOptions are the flags of export.
type exportOptions struct {
	to      string // the URL of a database
	exclude []string
}

func newExportCommand() *cobra.Command {
	o := exportOptions{}
	cmd := &cobra.Command{
		Use:   "export --to DATABASE OBJECT...",
		Short: "Write objects to the tables of an SQL database",
		Long: `Export makes a database mirror its source: each kind has a table, and each object a row. "keelson query" finds objects there by CEL
expressions, and every program that knows SQL can read them.

DATABASE is sqlite://FILE; the file is created if it does not exist. OBJECT is a file of YAML or JSON documents, a folder of such
files, a glob (** matches any number of folders), or "-" for standard input.

The name of a table is the kind and the group, in lower-case letters with underscores in place of other characters:
httproute_gateway_networking_k8s_io, configmap. Its columns are namespace, name, uid, resource_version, labels (JSON) and doc (the
object as JSON). The primary key is (namespace, name). The table keelson_kinds lists the tables.

A repeated export updates the rows of objects that changed, and removes the rows of objects that the source does not have any more.
If an export is interrupted, the database is consistent, and the next export completes it.

Objects that a database cannot hold, such as those with the character U+0000 in a text, are reported and have no row. The command
then fails after it has written all others.`,
		Example: `  keelson export --to sqlite://objects.db deploy/
  kubectl get widgets -A -o yaml | keelson export --to sqlite://widgets.db -`,
		Annotations: page("every object is in the database", "an object cannot be written, or the database cannot be used",
			"keelson help query, keelson help eval", "docs/sql.md: data at rest"),
		Args: needArguments("OBJECT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", "`URL` of the database: sqlite://FILE")
	f.StringArrayVar(&o.exclude, "exclude", nil, "glob of files and folders to leave out; without a slash, it matches names at any depth; may be repeated")
	return cmd
}

// export is a run of the command.
type export struct {
	ctx     context.Context
	to      *atrest.Database
	notes   io.Writer
	count   *counter
	kinds   int
	objects int
	removed int64
	refused int
}

// run exports objects and prints their number.
func (o *exportOptions) run(cmd *cobra.Command, paths []string) error {
	if o.to == "" {
		return &usageError{errors.New("export: no database is named: --to sqlite://FILE")}
	}
	if err := onceStdin(paths); err != nil {
		return err
	}
	read := manifest.Options{Exclude: o.exclude, ObjectsOnly: true}
	if err := read.Check(); err != nil {
		return &usageError{fmt.Errorf("--exclude: %w", err)}
	}
	in, err := read.Read(paths, cmd.InOrStdin())
	if err != nil {
		return err
	}
	e := &export{ctx: cmd.Context(), notes: cmd.ErrOrStderr()}
	if e.to, err = atrest.Open(e.ctx, o.to, atrest.Write); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer e.to.Close()
	e.count = newCounter(e.notes, "exported", len(in.Documents))
	err = e.files(in)
	e.count.done()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s exported", plural(e.objects, "object"))
	if e.kinds > 0 {
		text += " of " + plural(e.kinds, "kind")
	}
	if e.removed > 0 {
		text += fmt.Sprintf(", %s removed", plural(int(e.removed), "row"))
	}
	fmt.Fprintln(cmd.OutOrStdout(), text)
	if e.refused > 0 {
		return fmt.Errorf("%s not exported", plural(e.refused, "object"))
	}
	return e.to.Close()
}

// refuse reports an object that is not exported.
func (e *export) refuse(err error) {
	e.count.done()
	e.refused++
	fmt.Fprintf(e.notes, "keelson: %v\n", err)
}

// files exports the objects of files.
func (e *export) files(in *manifest.Input) error {
	if n := len(in.Skipped); n > 0 {
		fmt.Fprintf(e.notes, "keelson: skipped: %s that no server takes as an object, such as %s: %s\n", plural(n, "text"), in.Skipped[0], in.Skipped[0].Reason)
	}
	texts := map[atrest.Kind][]*manifest.Document{}
	var kinds []atrest.Kind
	for i := range in.Documents {
		d := &in.Documents[i]
		h, ok := d.Head()
		switch {
		case d.Err != nil:
			e.refuse(d.Err)
			continue
		case !ok:
			e.refuse(fmt.Errorf("%s: not an object with an apiVersion and a kind", d))
			continue
		}
		k := atrest.KindOf(h.APIVersion, h.Kind)
		if texts[k] == nil {
			kinds = append(kinds, k)
		}
		texts[k] = append(texts[k], d)
	}
	for _, k := range kinds {
		if err := e.mirror(k, textsOf(texts[k])); err != nil {
			return err
		}
	}
	return e.removeOthers(kinds)
}

// textsOf returns the texts of documents.
func textsOf(docs []*manifest.Document) iter.Seq[atrest.Text] {
	return func(yield func(atrest.Text) bool) {
		for _, d := range docs {
			if !yield(atrest.Text{JSON: d.JSON, Place: d.String()}) {
				return
			}
		}
	}
}

// mirror exports all objects of a kind.
func (e *export) mirror(k atrest.Kind, texts iter.Seq[atrest.Text]) error {
	n, err := e.to.Mirror(e.ctx, k, texts, e.refuse, e.count.add)
	e.kinds++
	e.objects += n.Objects
	e.removed += n.Removed
	return err
}

// removeOthers removes the rows of the kinds that the source does not have.
func (e *export) removeOthers(kinds []atrest.Kind) error {
	n, err := e.to.RemoveOthers(e.ctx, kinds)
	e.removed += n
	return err
}
