package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"enplace"
	"enplace/internal/spelling"
)

// unknown refuses a word that no subcommand is called; by itself cobra answers it with the help of the group, and success.
func unknown(root *cobra.Command, args []string) error {
	if len(args) > 0 && strings.HasPrefix(args[0], "__complete") {
		return nil // cobra adds these at the last moment
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	cmd, rest, err := root.Find(args)
	if err == nil && cmd.Name() == "help" && cmd.Parent() == root && cmd.ParseFlags(rest) == nil {
		return unknownTopic(root, cmd.Flags().Args())
	}
	if err != nil || cmd.Runnable() || cmd.ParseFlags(rest) != nil || cmd.Flags().NArg() == 0 {
		return nil //nolint:nilerr // cobra finds and reports the same
	}
	return noCommand(cmd, cmd.Flags().Arg(0))
}

// unknownTopic refuses to help with a command that there is not.
func unknownTopic(root *cobra.Command, path []string) error {
	for cmd := root; len(path) > 0; path = path[1:] {
		i := slices.IndexFunc(cmd.Commands(), func(sub *cobra.Command) bool { return sub.Name() == path[0] || sub.HasAlias(path[0]) })
		if i < 0 {
			return noCommand(cmd, path[0])
		}
		cmd = cmd.Commands()[i]
	}
	return nil
}

func noCommand(group *cobra.Command, name string) error {
	group.SuggestionsMinimumDistance = maxDistance
	if like := group.SuggestionsFor(name); len(like) > 0 {
		return usageError(group, "there is no %s %s; did you mean %s", group.CommandPath(), name, strings.Join(like, " or "))
	}
	return usageError(group, "there is no %s %s", group.CommandPath(), name)
}

// maxDistance is how many letters a suggestion may differ in; cobra's own default.
const maxDistance = 2

// likeFlag gives "; did you mean --host" for an error about a flag that there is not, and "" where no flag is like it.
func likeFlag(cmd *cobra.Command, err error) string {
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return ""
	}
	var like []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && spelling.Distance(strings.ToLower(name), f.Name, maxDistance+1) <= min(maxDistance, len(f.Name)/2) {
			like = append(like, "--"+f.Name)
		}
	})
	if len(like) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(like, " or ")
}

// scopeAsFlag says how a command is written whose scope is a flag and was given as a word; "" where that is not what is wrong.
func scopeAsFlag(cmd *cobra.Command, check cobra.PositionalArgs, args []string) string {
	i := slices.IndexFunc(args, func(word string) bool {
		_, err := enplace.ParseScope(word)
		return err == nil
	})
	if i < 0 || cmd.Flags().Lookup("scope") == nil {
		return ""
	}
	rest := slices.Delete(slices.Clone(args), i, i+1)
	if check(cmd, rest) != nil {
		return ""
	}
	return strings.Join(append(append([]string{cmd.CommandPath()}, rest...), "--scope", args[i]), " ")
}
