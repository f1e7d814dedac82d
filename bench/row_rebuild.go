package main

import "context"

// rebuildRow measures a build after one file changed against the first build of everything, downloads included.
func rebuildRow(ctx context.Context, l *lab) ([]result, error) {
	p, err := l.inPlace(ctx)
	if err != nil {
		return nil, err
	}
	var again []float64
	for range l.times(10, 3) {
		if err := l.edit(ctx, &p); err != nil {
			return nil, err
		}
		_, ms, err := l.build(ctx, p)
		if err != nil {
			return nil, err
		}
		again = append(again, ms)
	}
	l.project = p
	return []result{{What: "rebuild after one file changed, 1 GB", Against: "the first build", Unit: "ms", Ours: again, Theirs: []float64{p.firstMS}, Target: 0.05}}, nil
}
