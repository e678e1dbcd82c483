package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"runner/cmd/runner/flags"
	"runner/cmd/runner/render"
	"runner/hint"
	"runner/models"
	"runner/models/cache"
	"runner/models/catalog"
	"runner/models/installed"
	"runner/models/names"
)

func (a *App) listCommand() *cobra.Command {
	var asJSON bool
	return Command(&cobra.Command{
		Use:   "list",
		Short: "List the models on this machine",
		Long: `List the models on this machine: those in the Hugging Face cache, and those of Ollama and LM Studio that are
plain GGUF files. Downloads that did not finish come last.

SPEED (CPU) estimates how fast the processor can generate: the speed of the memory, measured once a week, divided by the
bytes that a token reads. Small models have no estimate, because the processor's caches hold them.

RUNS says whether an engine here runs the model, and whether it fits into the memory that is available now.`,
		Args: NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := a.list(cmd.Context())
			switch {
			case asJSON:
				return render.Lines(a.Stdout(), all)
			case len(all) == 0:
				a.Note("there are no models yet but the bundled one, demo; get one, for instance with: runner pull gpt-oss-20b")
				return nil
			}
			return a.writeModels(all)
		},
	}, JSONFlag(&asJSON, "one JSON object a line"))
}

func (a *App) showCommand() *cobra.Command {
	var asJSON bool
	return Command(&cobra.Command{
		Use:               "show MODEL",
		Short:             "Show what is known about a model on this machine",
		Args:              Exactly(1, "name one model", ""),
		ValidArgsFunction: CompleteModels,
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.Installed(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			l := a.describe(cmd.Context(), m.Files)
			if m.Source != models.Address {
				if l.Written, err = a.engine.Written(&m); err != nil && l.Problem == "" {
					a.Complain("warning: what the model can do is not known: " + errorLine(err))
				}
			}
			if asJSON {
				return render.Lines(a.Stdout(), []listed{l})
			}
			return a.writeModel(l)
		},
	}, JSONFlag(&asJSON, "write one JSON object"))
}

// inCache finds the models in the Hugging Face cache that a name means, and their repository. It takes the names that
// runner run takes.
func inCache(name string) (n names.Name, repo cache.Repo, found []catalog.Entry, err error) {
	if n, err = names.Parse(name, models.Hosts()...); err == nil {
		if repo, found = installed.Find(cache.Default(), n); repo != (cache.Repo{}) {
			return n, repo, found, nil
		}
	}
	m, failed := models.Resolve(name, 0)
	if failed == nil && m.Source == models.Demo {
		return n, repo, nil, Input("%s is part of this program, not a download", models.DemoName).
			Hint("see runner list")
	}
	e := (*models.Error)(nil)
	if errors.As(failed, &e) {
		if _, ok := cache.Default().Find(e.Repo); ok { // the model is damaged
			return inCache(e.Repo)
		}
		if !errors.Is(failed, fs.ErrNotExist) {
			return n, repo, nil, failed
		}
	}
	absent := Input("the Hugging Face cache has no model %q", name).From(fs.ErrNotExist).Hint("see runner list")
	var here []string
	all, _ := installed.List()
	for _, other := range all {
		isMeant := failed == nil && other.At() == m.Path
		switch {
		case isMeant && other.Place != catalog.HuggingFace:
			absent.Text, absent.Advice = fmt.Sprintf("%s is a model of %s", other.Name, other.Place), "use that program"
			return n, repo, nil, absent
		case isMeant && n.Word != "":
			return inCache(other.Repo)
		case isMeant:
			return inCache(other.Name)
		case other.Place == catalog.HuggingFace:
			here = append(here, other.Name)
		}
	}
	near := names.Suggest(name, math.MaxInt, here...)
	near = slices.DeleteFunc(near, func(s string) bool { return !slices.Contains(here, s) })
	if len(near) > 0 {
		absent.Advice = hint.Advice(models.DidYouMean(near[:min(3, len(near))]))
	}
	return n, repo, nil, absent
}

func (a *App) rmCommand() *cobra.Command {
	all := false
	return Command(&cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a downloaded model",
		Long: `Remove a model from the Hugging Face cache. NAME is ORG/REPO:Q4_K_M for one model of a repository, or
ORG/REPO if there is only one of it here, or with --all. What unfinished downloads left goes, too. Files that other
revisions use are kept. Remove models of Ollama and LM Studio with those programs.`,
		Args:              Exactly(1, "name one model", ""),
		ValidArgsFunction: completeInstalled,
		RunE:              func(_ *cobra.Command, args []string) error { return a.remove(args[0], all) },
	}, flags.Switch("all", &all, "remove all quantizations of the repository"))
}

// remove removes a model from the Hugging Face cache, with what unfinished downloads of it left. Without a selector or
// all it removes no more than one.
func (a *App) remove(name string, all bool) error {
	n, repo, found, err := inCache(name)
	if err != nil {
		return err
	}
	_, selector := n.OnHub()
	if selector == "" && len(found) > 1 && !all {
		selectors := catalog.Spell(found)
		return Input("%d models of %s are here: %s", len(found), repo.ID(), catalog.List(selectors)).
			Hint("name one, for instance %s:%s, or remove them with --all", repo.ID(), selectors[0])
	}
	partials, bytes, err := discardPartials(repo, selector)
	if err != nil {
		return err
	}
	gone := func(string, catalog.File) bool { return true }
	if selector != "" {
		if len(found)+partials == 0 {
			return Input("%s has no %q here", repo.ID(), selector).Hint("see runner list")
		}
		gone = installed.Entries(repo, found)
	}
	done, err := repo.Remove(gone)
	if err != nil {
		return err
	}
	if done.Files+partials == 0 {
		return Input("there is nothing of %s here", repo.ID()).Hint("see runner list")
	}
	what := []string{Count(done.Files, "file", "files")}
	if partials > 0 {
		what = append(what, Count(partials, "unfinished download", "unfinished downloads"))
	}
	a.Note(fmt.Sprintf("removed %s: %s, %s", name, strings.Join(what, " and "), render.Size(done.Bytes+bytes)))
	return nil
}

// discardPartials removes what unfinished downloads left of a repository, or of one model of it.
func discardPartials(repo cache.Repo, selector string) (n int, bytes int64, err error) {
	for _, p := range installed.Unfinished(repo) {
		if selector != "" && !strings.EqualFold(p.Name, repo.ID()+":"+selector) {
			continue
		}
		left, err := p.Discard(repo)
		switch {
		case err != nil:
			return n, bytes, err
		case left:
			return n, bytes, Input("%s is being downloaded", p.Name).Hint("stop the download first")
		}
		n, bytes = n+1, bytes+p.Have
	}
	return n, bytes, nil
}

func (a *App) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify [NAME]",
		Short: "Check downloaded models against their hashes",
		Long: `Check the files of a model in the Hugging Face cache, or of all models there, against the hub's hashes. The
exit code is 1 if a file is damaged or missing.`,
		Args:              AtMost(1, "models", "name one"),
		ValidArgsFunction: completeInstalled,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := UntilStopped(cmd.Context())
			defer stop()
			repos, err := cache.Default().Repos()
			if len(args) > 0 {
				var repo cache.Repo
				_, repo, _, err = inCache(args[0])
				repos = []cache.Repo{repo}
			}
			if err != nil {
				return err
			}
			if len(repos) == 0 {
				a.Note("there are no models in the Hugging Face cache")
			}
			return a.verify(ctx, repos)
		},
	}
}

func (a *App) verify(ctx context.Context, repos []cache.Repo) error {
	bad := 0
	for _, repo := range repos {
		if commits, _ := repo.Commits(); len(repos) > 1 && len(commits) == 0 {
			continue // nothing of it was downloaded whole
		}
		spinner := a.Spinner()
		v, err := repo.Verify(ctx, func(done, total int64) {
			spinner.Set(fmt.Sprintf("checking %s %3.0f%%", repo.ID(), 100*float64(done)/float64(max(total, 1))))
		})
		spinner.Stop()
		switch {
		case ctx.Err() != nil:
			return ErrInterrupted
		case err != nil:
			return err
		}
		fmt.Fprintf(a.Stdout(), "%s: %s, %s, %d damaged\n", repo.ID(), Count(v.Files, "file", "files"),
			render.Size(v.Bytes), len(v.Damaged))
		for _, d := range v.Damaged {
			fmt.Fprintln(a.Stdout(), "  "+render.CleanLine(d.String()))
		}
		if len(v.Unknown) > 0 {
			fmt.Fprintln(a.Stdout(), "  without a hash: "+render.CleanLine(catalog.List(v.Unknown)))
		}
		bad += len(v.Damaged)
	}
	if bad > 0 {
		return Input("%s damaged or missing", Count(bad, "file is", "files are")).
			Hint("remove the model with runner rm, and get it again with runner pull")
	}
	return nil
}
