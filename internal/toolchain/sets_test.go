package toolchain_test

import (
	"time"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/toolchain/toolchaintest"
)

// A refresh gives another set of the same items, for all who had it; sets that nobody uses are forgotten.
func testRefresh(h house) {
	ctx, s := h.t.Context(), h.Toolchain
	with := h.Direct("r-ann")
	h.Attach("person:r-ann", "own", item("own"))
	old := h.set(with)
	b, err := s.Use(ctx, old.Hash)
	check(h.t, err)
	if b.Status != enplace.BundleBuilding {
		h.t.Errorf("%+v", b)
	}
	rec, err := s.Refresh(ctx, toolchaintest.Person("r-ann"), with)
	check(h.t, err)
	if rec.Hash == old.Hash || keys(rec.Set) != keys(old) || h.set(with).Hash != rec.Hash {
		h.t.Errorf("refreshed to %s, was %s", rec.Hash, old.Hash)
	}
	if b, err = s.Use(ctx, rec.Hash); err != nil || b.Status != enplace.BundleBuilding {
		h.t.Errorf("%+v, %v", b, err)
	}
	for _, hash := range []string{old.Hash, rec.Hash} {
		if b, err = s.WaitBundle(ctx, operator, hash, toolchaintest.Patience); err != nil || b.Status != enplace.BundleReady || b.Image == "" {
			h.t.Errorf("%+v, %v", b, err)
		}
	}
	log, err := s.Log(ctx, operator, rec.Hash)
	check(h.t, err)
	check(h.t, log.Close())

	// A set held in memory is resolved again before it could be forgotten.
	h.Clock.Advance(31 * 24 * time.Hour)
	if n, err := h.Store.DeleteSets(ctx, h.Clock.Now().Add(-30*24*time.Hour)); err != nil || n == 0 {
		h.t.Errorf("%d sets were forgotten, %v", n, err)
	}
	if b, err = s.Use(ctx, h.set(with).Hash); err != nil || b.Status != enplace.BundleBuilding {
		h.t.Errorf("after it was forgotten: %+v, %v", b, err)
	}
}

// A retry of a bundle resolved latest anew, while computers had installed what the failed attempt resolved.
func testRetryKeepsVersions(h house) {
	with := h.Direct("q-ann")
	h.Attach("person:q-ann", "own", item("q-own"))
	hash := h.set(with).Hash
	had := []enplace.InstalledItem{{Key: "q-own", Scope: "person:q-ann", Tools: []enplace.ToolStatus{{Name: "npm:x", Requested: "latest", Resolved: "1.2.3"}}}}
	for _, status := range []enplace.BundleStatus{enplace.BundleFailed, enplace.BundleBuilding} {
		_, err := h.Store.UpdateSet(h.t.Context(), hash, func(r *store.SetRecord) error {
			r.Bundle = enplace.Bundle{Status: status, Reason: "it was", Items: had}
			return nil
		})
		check(h.t, err)
		b, err := h.Toolchain.RetryBundle(h.t.Context(), toolchaintest.Person("q-ann"), hash)
		check(h.t, err)
		if b.Status != enplace.BundleBuilding || b.Reason != "" || len(b.Items) != 1 || b.Items[0].Tools[0].Resolved != "1.2.3" {
			h.t.Errorf("a retry of one that was %s: %+v", status, b)
		}
		_, err = h.Toolchain.WaitBundle(h.t.Context(), operator, hash, toolchaintest.Patience)
		check(h.t, err)
	}
}
