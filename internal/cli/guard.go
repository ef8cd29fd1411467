// This file bounds what a command takes from its machine: its memory, and the time that it goes on after a signal. The files of
// offline commands may be a stranger's.

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/memory"
)

// graceAfterSignal is how long an offline command may go on after a signal.
const graceAfterSignal = 700 * time.Millisecond

// memoryLimitFlag is the flag of the offline commands.
const memoryLimitFlag = "memory-limit"

// addMemoryLimit adds the flag to a command and those below it.
func addMemoryLimit(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		addMemoryLimit(c)
	}
	if !cmd.HasSubCommands() {
		cmd.Flags().String(memoryLimitFlag, "", "`bytes` of memory that the command may take, such as 2Gi; 0 for no limit. By default, half of the cgroup's limit or of the machine's memory")
	}
}

// memoryLimit returns the limit in bytes of an offline command; 0 if it has none.
func memoryLimit(cmd *cobra.Command) (int64, error) {
	given := ""
	if f := cmd.Flags().Lookup(memoryLimitFlag); f != nil {
		given = f.Value.String()
	}
	limit, err := memory.ParseLimit(given)
	if err != nil {
		return 0, command.UsageError(fmt.Errorf("--%s: %w", memoryLimitFlag, err))
	}
	if given == "" {
		limit = limit / 3 * 2 // of three quarters
	}
	return limit, nil
}

// serves reports whether a command is a server, which bounds itself and ends in its own time.
func serves(cmd *cobra.Command) bool {
	on, err := cmd.Flags().GetBool("serve") // of convert
	return cmd.Name() == "serve" || err == nil && on
}

// guardProcess makes each command that is no server end the process when it takes more memory than it may, and some time after ctx has ended:
// a loop over what a file says may not look at its context. done is closed when the command has ended.
func guardProcess(ctx context.Context, done <-chan struct{}, root *cobra.Command, errs io.Writer) {
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if serves(cmd) {
			return nil
		}
		limit, err := memoryLimit(cmd)
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() {
			select {
			case <-done:
			case <-time.After(graceAfterSignal):
				end(errs, errors.New("stopped by a signal"))
			}
		})
		if limit > 0 {
			debug.SetMemoryLimit(limit)
			go func() {
				if err := watchMemory(limit, done); err != nil {
					end(errs, err)
				}
			}()
		}
		return nil
	}
}

// end ends the process with an error.
func end(errs io.Writer, err error) {
	fmt.Fprintln(errs, "keelson: "+err.Error())
	os.Exit(1)
}

// watchMemory returns an error when the process has taken more bytes than the limit, and nil when done is closed. The collector works harder
// near the limit, so that garbage is not the reason.
func watchMemory(limit int64, done <-chan struct{}) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for {
		select {
		case <-done:
			return nil
		case <-tick.C:
		}
		metrics.Read(samples)
		if samples[0].Value.Uint64()-samples[1].Value.Uint64() > uint64(limit) {
			return fmt.Errorf("the command needs more than %d MiB of memory: name fewer or smaller files, or raise --%s", limit>>20, memoryLimitFlag)
		}
	}
}
