package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"runner/hint"
	"runner/models"
	"runner/models/catalog"
	"runner/models/installed"
	"runner/models/names"
)

// NoArguments refuses arguments. If cmd has subcommands, it reports the argument as an unknown command.
func NoArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !cmd.HasSubCommands():
		return Usage("%s takes no argument %q", cmd.CommandPath(), args[0]).Hint("%s", See(cmd))
	}
	return missingCommand(cmd, args[0])
}

// missingCommand returns the error that cmd has no command with a name.
func missingCommand(cmd *cobra.Command, typed string) error {
	_, name, _ := strings.Cut(cmd.CommandPath()+" "+typed, " ")
	e := Usage("there is no command %q", name).Hint("%s", See(cmd))
	near := nearCommand(cmd, typed)
	if near == "" && !cmd.HasParent() && isModel(typed) {
		near = "run " + typed
	}
	if near != "" {
		e.Advice = didYouMean(cmd.CommandPath() + " " + near)
	}
	if other, ok := notHere[typed]; ok && !cmd.HasParent() {
		e.Advice = other
	}
	return e
}

// nearCommand returns the name of the command in cmd that other programs call what was typed, or else the one that is
// most like it, or "" if none is.
func nearCommand(cmd *cobra.Command, typed string) string {
	shown := shownCommands(cmd)
	if own := elsewhere[typed]; slices.Contains(shown, own) {
		return own
	}
	return Nearest(typed, shown)
}

// elsewhere has commands of other programs, and what they are called here.
var elsewhere = map[string]string{
	"remove": "rm", "delete": "rm", "uninstall": "rm", "ls": "list", "models": "list", "chat": "run",
	"ask": "run", "download": "pull", "install": "pull", "get": "pull", "start": "serve", "server": "serve",
	"info": "show", "inspect": "show", "check": "verify", "benchmark": "bench", "settings": "config",
}

// notHere has commands of ollama that have no likeness here, and what does their work.
var notHere = map[string]hint.Advice{
	"ps": "runner list shows the models on this machine, and /api/ps of a server those that are loaded",
	"stop": "a model is unloaded when runner run ends, and by a server after --keep-alive; " +
		"a server ends with its process",
	"create": "what a Modelfile sets are flags and settings here, see runner config --help",
	"cp":     "runner serve NAME=MODEL gives a model another name",
}

// flagsElsewhere has flags of other programs by the command that takes them there, and what does their work here.
var flagsElsewhere = map[string]map[string]hint.Advice{
	"run": {
		"format": "use --json for an answer that is a JSON object, or --schema FILE for one that matches a schema",
		"think": "use --reasoning full to see the reasoning; --reasoning-effort sets how much the model reasons, " +
			"none included",
		"hidethinking": "leave it out: reasoning is hidden unless --reasoning asks for it",
		"keepalive":    "leave it out: the model is unloaded when the command ends; runner serve has --keep-alive",
		"n-predict":    "use --max-tokens",
		"jinja":        "leave it out: chat templates are always Jinja",
	},
	"serve": {
		"jinja":         "leave it out: chat templates are always Jinja",
		"metrics":       "leave it out: /metrics is always there",
		"hf-repo":       "use runner pull ORG/REPO, and then runner serve ORG/REPO",
		"ssl-key-file":  "use --tls-key",
		"ssl-cert-file": "use --tls-cert",
		"api-key-file":  "use --api-keys with a file that runner serve apikey makes",
	},
}

// isModel reports whether a word is a model that run takes, or looks like the name of one.
func isModel(word string) bool {
	return models.IsName(word) || models.LooksLikeName(word)
}

// shownCommands returns the names of the commands in cmd that the help shows.
func shownCommands(cmd *cobra.Command) (list []string) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			list = append(list, sub.Name())
		}
	}
	return list
}

// See points to the help of a command.
func See(cmd *cobra.Command) string { return "see " + cmd.CommandPath() + " --help" }

// Exactly requires n arguments. what is the error of another number. Without a hint, the error points to the command's
// help.
func Exactly(n int, what, hint string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return Usage("%s", what).Hint("%s", cmp.Or(hint, See(cmd)))
		}
		return nil
	}
}

// AtMost allows up to n arguments, which are called things in the error.
func AtMost(n int, things, hint string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > n {
			return Usage("%d %s are too many", len(args), things).Hint("%s", hint)
		}
		return nil
	}
}

// FileAndID requires two arguments, a file and an id.
var FileAndID = Exactly(2, "a file and an id are needed", "")

// CompleteModels completes the name of a model: one on this machine, the demo or a file, and a well-known one once a
// part of it was typed. After a colon come the quantizations that are known.
func CompleteModels(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	list := modelNames(typed)
	if typed != "" {
		list = append(list, knownNames(typed)...)
	}
	return Unique(list), cobra.ShellCompDirectiveDefault
}

// completeInstalled completes the name of a model in the Hugging Face cache.
func completeInstalled(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return installedNames(typed, catalog.HuggingFace), cobra.ShellCompDirectiveNoFileComp
}

// completePull completes the name of a well-known model, and of one in the Hugging Face cache once a part of it was
// typed.
func completePull(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	list := knownNames(typed)
	if typed != "" {
		list = append(installedNames(typed, catalog.HuggingFace), list...)
	}
	return Unique(list), cobra.ShellCompDirectiveNoFileComp
}

// modelNames returns the names of the demo and of the models on this machine that complete what was typed.
func modelNames(typed string) []string {
	return append([]string{models.DemoName}, installedNames(typed, installed.Places()...)...)
}

// installedNames returns the names of the models in some places of this machine. If the name of a repository and a
// colon were typed, its models are also there by their quantizations.
func installedNames(typed string, places ...catalog.Place) (list []string) {
	colon := strings.LastIndexByte(typed, ':') + 1
	found, _ := installed.List()
	for _, m := range found {
		if m.Problem != "" || !slices.Contains(places, m.Place) {
			continue
		}
		list = append(list, m.Name)
		if m.Quant != "" && strings.EqualFold(m.Repo+":", typed[:colon]) {
			list = append(list, typed[:colon]+m.Quant)
		}
	}
	return Unique(list)
}

// Unique removes what is in a list before.
func Unique[T comparable](list []T) (out []T) {
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// knownNames returns the well-known names that begin with what was typed, also with "-" for the colon, and after
// another colon with a quantization.
func knownNames(typed string) (list []string) {
	for _, k := range names.All() {
		for _, name := range slices.Compact([]string{k.Name, strings.ReplaceAll(k.Name, ":", "-")}) {
			if strings.HasPrefix(name, strings.ToLower(typed)) {
				list = append(list, typed+name[len(typed):]) // the shell compares the case
				break
			}
		}
	}
	if at := strings.LastIndexByte(typed, ':'); at >= 0 {
		for _, quant := range names.Quants(typed[:at]) {
			list = append(list, typed[:at+1]+quant)
		}
	}
	return list
}
