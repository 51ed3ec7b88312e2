// Verifies a report folder with npm's @sigstore/verify and node's own crypto, and nothing of ours.
//
//   node verify.mjs FOLDER key PEM
//   node verify.mjs FOLDER keyless CLIENT_TRUST_CONFIG IDENTITY ISSUER
//
// Exit code 0: it holds; 1: the reason is on standard error.
import { createHash, createPublicKey } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const load = createRequire(process.env.STRANGERS_MODULES + "/");
const { bundleFromJSON } = load("@sigstore/bundle");
const { TrustedRoot } = load("@sigstore/protobuf-specs");
const { Verifier, toSignedEntity, toTrustMaterial } = load("@sigstore/verify");

const [folder, kind, trusted, identity, issuer] = process.argv.slice(2);
const sha256 = (content) => createHash("sha256").update(content).digest("hex");
const read = (name) => readFileSync(join(folder, name));
const must = (holds, why) => {
  if (!holds) throw new Error(why);
};

function verifierOfKey() {
  const pem = readFileSync(trusted);
  const publicKey = createPublicKey(pem);
  const names = [sha256(publicKey.export({ type: "spki", format: "der" })), sha256(pem)];
  const find = (hint) => {
    must(names.includes(hint), `signed by another key: ${hint}`);
    return { publicKey, validFor: () => true };
  };
  const material = toTrustMaterial(TrustedRoot.fromJSON({}), find);
  // A key has neither certificate nor log entry nor timestamp.
  return [new Verifier(material, { ctlogThreshold: 0, tlogThreshold: 0, timestampThreshold: 0 }), undefined];
}

function verifierOfIdentity() {
  const root = TrustedRoot.fromJSON(JSON.parse(readFileSync(trusted)).trustedRoot);
  const exactly = `^${identity.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
  return [new Verifier(toTrustMaterial(root)), { subjectAlternativeName: exactly, extensions: { issuer } }];
}

function statementIn(name, verifier, policy) {
  const bundle = bundleFromJSON(JSON.parse(read(name)));
  verifier.verify(toSignedEntity(bundle), policy);
  const envelope = bundle.content.dsseEnvelope;
  must(envelope.payloadType === "application/vnd.in-toto+json", `${name}: no in-toto statement`);
  return JSON.parse(envelope.payload.toString());
}

try {
  const [verifier, policy] = kind === "key" ? verifierOfKey() : verifierOfIdentity();
  const report = statementIn("attestation.sigstore.json", verifier, policy);
  const tests = statementIn("test-result.sigstore.json", verifier, policy);
  const whole = statementIn("model.sig", verifier, policy);

  const signed = Object.fromEntries(report.subject.map((each) => [each.name, each.digest.sha256]));
  const apart = ["attestation.sigstore.json", "model.sig", "signer.pub.pem"];
  for (const name of readdirSync(folder)) must(name in signed || apart.includes(name), `${name}: not signed`);
  for (const name in signed) must(sha256(read(name)) === signed[name], `${name}: changed`);
  const recipe = tests.subject.find((each) => each.name === "recipe.resolved.toml");
  must(recipe.digest.sha256 === signed["recipe.resolved.toml"], "tests of another recipe");
  const about = tests.predicate["https://pypi.org/project/streamproof/#report"];
  must(about.digest.sha256 === signed["report.json"], "tests of another report");
  for (const { name, digest } of whole.predicate.resources) must(sha256(read(name)) === digest, `${name}: changed`);
} catch (error) {
  console.error(`${error.name}: ${error.message}`);
  process.exit(1);
}
