package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"runner/models"
	"runner/models/cache"
	"runner/models/choice"
	"runner/models/hub/download"
	"runner/models/installed"
	"runner/models/names"
)

// listed is a model in the output of list and show.
type listed struct {
	Name         string          `json:"name"`
	Place        installed.Place `json:"place"`
	Path         string          `json:"path"`
	Parts        int             `json:"parts"`
	Bytes        int64           `json:"bytes"`
	Quant        string          `json:"quantization,omitempty"`
	Architecture string          `json:"architecture,omitempty"`
	Parameters   int64           `json:"parameters,omitempty"`
	// Problem says why the model cannot be run here. It is empty if it can.
	Problem string `json:"problem,omitempty"`
}

// describe reads the header of a model and asks whether an engine here runs it.
func (a *app) describe(ctx context.Context, m installed.Model) listed {
	m.Describe()
	l := listed{m.Name, m.Place, m.Path, len(m.Parts), m.Bytes, m.Quant, m.Architecture, m.Parameters, m.Problem}
	if l.Problem == "" {
		if _, err := a.engine.Choose(ctx, m.Path, "", func(string) {}); err != nil {
			l.Problem = err.Error()
		}
	}
	return l
}

func (a *app) listCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the models on this machine",
		Long: `List the models on this machine: those in the Hugging Face cache, and those of Ollama and LM Studio that are
plain GGUF files. RUNS says whether an engine here runs the model. Downloads that did not finish come last.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, partials := installed.List()
			if asJSON {
				enc := json.NewEncoder(a.stdout())
				for _, m := range found {
					if err := enc.Encode(a.describe(cmd.Context(), m)); err != nil {
						return err
					}
				}
				return nil
			}
			return a.writeModels(cmd.Context(), found, partials)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	return cmd
}

func (a *app) writeModels(ctx context.Context, found []installed.Model, partials []installed.Partial) error {
	if len(found)+len(partials) == 0 {
		a.note("there are no models yet; get one, for instance with: runner pull gpt-oss-20b")
		return nil
	}
	w := table(a.stdout())
	if len(found) > 0 {
		fmt.Fprintln(w, "NAME\tSIZE\tQUANTIZATION\tFAMILY\tPLACE\tRUNS")
	}
	for _, m := range found {
		l, runs := a.describe(ctx, m), "yes"
		if l.Problem != "" {
			runs = "no: " + l.Problem
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, size(l.Bytes), l.Quant, l.Architecture, l.Place, runs)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	told := map[string]bool{}
	for _, p := range partials {
		if p.Repo == "" || told[p.Repo] {
			continue
		}
		told[p.Repo] = true
		have, total := int64(0), int64(0)
		if repo, ok := cache.Default().Find(p.Repo); ok {
			for _, u := range download.Find(repo) {
				have, total = have+u.Have, total+u.Size
			}
		}
		line := "unfinished: " + p.Repo
		if total > 0 {
			line += fmt.Sprintf(", %s of %s", size(have), size(total))
		}
		a.note(line + "; runner pull " + p.Repo + " goes on with it")
	}
	return nil
}

func (a *app) showCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "show MODEL",
		Short:             "Show what is known of a model on this machine",
		Args:              exactly(1, "name one model", ""),
		ValidArgsFunction: completeModels,
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := models.Resolve(args[0])
			if err != nil {
				return err
			}
			l := listed{Name: m.Name, Path: m.Path, Parts: len(m.Parts)}
			found, _ := installed.List()
			if i := slices.IndexFunc(found, func(f installed.Model) bool { return f.Path == m.Path }); i >= 0 {
				l = a.describe(cmd.Context(), found[i])
			} else if _, err := a.engine.Choose(cmd.Context(), m.Path, "", func(string) {}); err != nil {
				l.Problem = err.Error()
			}
			if asJSON {
				return json.NewEncoder(a.stdout()).Encode(l)
			}
			w := table(a.stdout())
			for _, row := range [][2]string{{"name", l.Name}, {"place", string(l.Place)}, {"path", l.Path},
				{"size", size(max(l.Bytes, sizeOf(m.Path)))}, {"quantization", l.Quant}, {"family", l.Architecture},
				{"problem", l.Problem}} {
				if row[1] != "" {
					fmt.Fprintf(w, "%s\t%s\n", row[0], row[1])
				}
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one JSON object")
	return cmd
}

// inCache finds a repository in the Hugging Face cache by a name that people use.
func inCache(name string) (repo cache.Repo, selector string, err error) {
	parsed, err := names.Parse(name)
	if err != nil {
		return repo, "", err
	}
	ids, selector := parsed.OnHub()
	for _, id := range ids {
		if r, ok := cache.Default().Find(id); ok {
			return r, selector, nil
		}
	}
	return repo, "", &inputError{what: fmt.Sprintf("the Hugging Face cache has no model %q", name),
		hint: "see runner list", err: fs.ErrNotExist}
}

func (a *app) rmCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a downloaded model",
		Long: `Remove a model from the Hugging Face cache. NAME is ORG/REPO for all of a repository, or ORG/REPO:Q4_K_M for
one model of it. Files that other revisions use stay. Models of Ollama and LM Studio are theirs to remove.`,
		Args:              exactly(1, "name one model", ""),
		ValidArgsFunction: completeModels,
		RunE: func(_ *cobra.Command, args []string) error {
			repo, selector, err := inCache(args[0])
			if err != nil {
				return err
			}
			gone := func(string, cache.File) bool { return true }
			if selector != "" {
				picked := installed.Select(installed.InRepo(repo), selector)
				if len(picked) == 0 {
					return &inputError{what: fmt.Sprintf("%s has no %q here", repo.ID(), selector), hint: "see runner list"}
				}
				var parts []string
				for _, m := range picked {
					parts = append(parts, m.Parts...)
				}
				gone = func(commit string, f cache.File) bool {
					entry, err := repo.Entry(commit, f.Path)
					return err == nil &&
						slices.ContainsFunc(parts, func(p string) bool { return filepath.Clean(p) == entry })
				}
			}
			done, err := repo.Remove(gone)
			if err != nil {
				return err
			}
			a.note(fmt.Sprintf("removed %s: %d files, %s", args[0], done.Files, size(done.Bytes)))
			return nil
		},
	}
}

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify [NAME]",
		Short: "Check downloaded models against their hashes",
		Long: `Check the files of a model in the Hugging Face cache, or of all, against the hashes that the hub gave. The exit
code is 1 if a file is damaged or missing.`,
		Args:              atMost(1, "models", "name one"),
		ValidArgsFunction: completeModels,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilStopped(cmd.Context())
			defer stop()
			repos, err := cache.Default().Repos()
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			if len(args) > 0 {
				var repo cache.Repo
				repo, _, err = inCache(args[0])
				repos = []cache.Repo{repo}
			}
			if err != nil {
				return err
			}
			return a.verify(ctx, repos)
		},
	}
}

func (a *app) verify(ctx context.Context, repos []cache.Repo) error {
	bad := 0
	for _, repo := range repos {
		spinner := a.spinner()
		v, err := repo.Verify(ctx, func(done, total int64) {
			spinner.Set(fmt.Sprintf("checking %s %3.0f%%", repo.ID(), 100*float64(done)/float64(max(total, 1))))
		})
		spinner.Stop()
		switch {
		case ctx.Err() != nil:
			return errInterrupted
		case err != nil:
			return err
		}
		fmt.Fprintf(a.stdout(), "%s: %d files, %s, %d damaged\n", repo.ID(), v.Files, size(v.Bytes), len(v.Damaged))
		for _, d := range v.Damaged {
			fmt.Fprintln(a.stdout(), "  "+d.String())
		}
		if len(v.Unknown) > 0 {
			fmt.Fprintln(a.stdout(), "  without a hash: "+choice.List(v.Unknown))
		}
		bad += len(v.Damaged)
	}
	if bad > 0 {
		return &inputError{what: fmt.Sprintf("%d files are damaged or missing", bad),
			hint: "remove the model with runner rm, and get it again with runner pull"}
	}
	return nil
}
