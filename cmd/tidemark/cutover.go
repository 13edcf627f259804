package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/job"
)

func cutoverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cutover [SOURCE TARGET]",
		Short: "Bring a stream to its end: apply all, advance sequences, prove that both sides are equal",
		Long: `Bring a stream that replicate has set up to its end: apply all that the source's log
holds, set the target's sequences to where the source's are, compare both sides row by
row and definition by definition, and print the proof. The exit code is 0 only if they
are equal: rows always, definitions unless --definitions says accept or off.

End the process that replicates first, and whatever writes to the source: --fence does
that on PostgreSQL. It makes the database read-only (ALTER DATABASE ... SET
default_transaction_read_only = on) and ends all sessions of others.`,
		Example: `  tidemark cutover postgres://me@old/shop postgres://me@new/shop --fence

  # afterwards: the source keeps no log for the stream any more
  tidemark replicate postgres://me@old/shop postgres://me@new/shop --remove`,
		Args: args(0, 2, "cutover SOURCE TARGET"),
	}
	return onRequest(cmd, (*request).cutover)
}

func (r *request) cutover(cmd *cobra.Command) error {
	r.sayFindings(cmd)
	cat, err := openCatalog(r.settings)
	if err != nil {
		return err
	}
	defer cat.Close()
	watch := newWatcher(r.settings, cmd.OutOrStdout(), cmd.ErrOrStderr())
	env := job.Env{Open: r.opener(), Catalog: cat, Watch: watch}
	spec := job.CutoverSpec{Stream: r.stream, Fence: r.fence, Diff: r.diffSpec()}
	spec.Stream.Copy, spec.Stream.Buffer = r.copySpec(), r.load.Buffer
	spec.Stream.OpenQueue, spec.Stream.Apply.Spool = r.openQueue, r.spool()
	proof, err := job.Cutover(cmd.Context(), env, spec)
	var defined *define.Result
	if err == nil && r.define.cutover != "off" {
		defined, err = r.definitions(cmd.Context(), env)
	}
	watch.stop()
	if err != nil {
		return err
	}
	proof.Definitions, proof.Accepted = defined, r.define.cutover == "accept"
	if r.json {
		printJSON(cmd.OutOrStdout(), proof)
	} else {
		printProof(cmd.OutOrStdout(), proof)
	}
	if !proof.Equal() {
		return differ{}
	}
	return nil
}

func printProof(w io.Writer, p *job.Proof) {
	if p.Fenced {
		fmt.Fprintln(w, "the source is read-only, and all sessions of others are ended")
	}
	fmt.Fprintf(w, "applied:   all that the source's log held (%s transactions, %s rows)\n", commas(p.Applied.Transactions), commas(p.Applied.Rows))
	fmt.Fprintf(w, "sequences: %s advanced on the target\n", count(len(p.Sequences), "sequence"))
	for _, f := range p.Findings {
		printFinding(w, f)
	}
	fmt.Fprintf(w, "compared:\n%s\n", p.Compared.String())
	if p.Definitions != nil {
		printDefinitions(w, p.Definitions)
	}
	switch {
	case !p.Compared.Equal:
		fmt.Fprintln(w, "Both sides are not equal: either something still writes to the source (--fence), or the target was changed.")
	case !p.Equal():
		fmt.Fprintln(w, "The rows of both sides are equal, their definitions are not: run the SQL above on the target and cut over again, or accept the differences (--definitions=accept).")
	case p.Definitions == nil:
		fmt.Fprintf(w, "The rows of both sides are equal; definitions were not compared; it took %.1f s. Point the applications to the target now.\n", p.Seconds)
	case !p.Definitions.Equal:
		fmt.Fprintf(w, "The rows of both sides are equal, and the differences of their definitions are accepted; it took %.1f s. Point the applications to the target now.\n", p.Seconds)
	default:
		fmt.Fprintf(w, "Both sides are equal; it took %.1f s. Point the applications to the target now.\n", p.Seconds)
	}
}
