package mise

// Settings says how many settings an item may have.
func Settings() int { return len(settings()) }
