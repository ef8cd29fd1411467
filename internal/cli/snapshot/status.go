package snapshot

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/store/encrypt"
	"github.com/keelson-io/keelson/internal/store/etcd"
)

// This file has the command "snapshot status".

// newStatusCommand returns the command "snapshot status".
func newStatusCommand() *cobra.Command {
	format := "text"
	cmd := &cobra.Command{
		Use:   "status FILE",
		Short: "Check a snapshot, and say what it holds and what is encrypted",
		Long: `Check the snapshot in FILE, and print for each resource how many objects it has, and
whether they are encrypted: by which provider of the encryption configuration, and
with which key. Whoever restores the snapshot needs these keys.

The command needs neither a server nor the keys.`,
		Example: `  keelson snapshot status backup.db
  keelson snapshot status -o json backup.db`,
		Annotations: command.Page("the snapshot is complete, and its checksum is correct", "it is not", "keelson help snapshot restore", "docs/operations.md: backup and restore"),
		Args:        command.OneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return command.UsageError(fmt.Errorf("snapshot status: -o: got %q, want text or json", format))
			}
			inventory, err := etcd.ReadInventory(args[0], encrypt.Describe)
			if err != nil {
				return err
			}
			return printStatus(cmd.OutOrStdout(), format, args[0], inventory)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", format, "`format`: text or json")
	return cmd
}

// status is what keelson snapshot status -o json prints.
type status struct {
	command.Envelope
	File      string         `json:"file"`
	Bytes     int64          `json:"bytes"`
	Revision  int64          `json:"revision"`
	Objects   int            `json:"objects"`
	Resources []snapshotPart `json:"resources"`
}

// snapshotPart counts the objects of one resource that are encrypted alike.
type snapshotPart struct {
	Resource   string `json:"resource"`             // as in the keys: "secrets", "example.com/widgets"
	Encryption string `json:"encryption,omitempty"` // provider and key; "" for none
	Objects    int    `json:"objects"`
}

// partsOf counts the keys of an inventory, in the order of resource and encryption.
func partsOf(inventory *etcd.Inventory) (parts []snapshotPart, all int) {
	counts := map[snapshotPart]int{}
	for key, label := range inventory.Labels {
		if resource, ok := command.ResourceOf(key); ok {
			counts[snapshotPart{Resource: resource, Encryption: label}]++
		}
	}
	for part, n := range counts {
		part.Objects = n
		parts = append(parts, part)
		all += n
	}
	slices.SortFunc(parts, func(a, b snapshotPart) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Encryption, b.Encryption))
	})
	return parts, all
}

// printStatus prints what a snapshot has, as text or JSON.
func printStatus(w io.Writer, format, file string, inventory *etcd.Inventory) error {
	parts, all := partsOf(inventory)
	if format == "json" {
		return command.PrintJSON(w, status{command.EnvelopeOf("SnapshotStatus"), file, inventory.Bytes, inventory.Revision, all, parts})
	}
	fmt.Fprintf(w, "%s: %d bytes, checksum verified, revision %d, %d objects\n\n", file, inventory.Bytes, inventory.Revision, all)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "RESOURCE\tOBJECTS\tENCRYPTED WITH")
	for _, p := range parts {
		fmt.Fprintf(table, "%s\t%d\t%s\n", p.Resource, p.Objects, cmp.Or(p.Encryption, "-"))
	}
	return table.Flush()
}
