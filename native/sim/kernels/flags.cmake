# -Wno-psabi: vectors wider than a level's registers are passed between inlined functions only.
# The arithmetic of kernels raises no traps and sets no errno; a*b+c may be fused where the CPU can.
set(AIOCANN_KERNEL_FLAGS -Wno-psabi -fno-math-errno -fno-trapping-math -ffp-contract=fast)
set(AIOCANN_KERNEL_FLAGS_v4 -mprefer-vector-width=512)
