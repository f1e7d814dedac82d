package guest

// What the computer needs of its mise and its sets is not mise's to remove, though whoever is root can.

// miseRefused says why a subcommand of mise is not run here; "" when it is.
func miseRefused(sub string) string {
	switch sub {
	case "implode":
		return "mise implode would remove mise, with which the computer's tools are installed. mise unuse TOOL takes back what mise use gave"
	case "self-update":
		return "the computer's mise is that of its base, and changes with it"
	}
	return ""
}

// miseOwn are the subcommands that get to see only what was installed inside: they would remove the sets' tools as well.
var miseOwn = []string{"uninstall"}
