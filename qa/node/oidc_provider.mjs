// An OpenID provider (oidc-provider, certified) for the tests of sign-in. Its sign-in pages take any password.
// node oidc_provider.mjs PORT CLAIMS: CLAIMS is a file with {"LOGIN": {claims}}, read at each use; 0: a free port.
import { createServer } from "node:http";
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import Provider from "oidc-provider";

const [, , wanted, claimsFile] = process.argv;
const read = () => JSON.parse(readFileSync(claimsFile, "utf8"));

function makeKey(alg, type, options) {
  const { privateKey } = generateKeyPairSync(type, options);
  return { ...privateKey.export({ format: "jwk" }), kid: randomUUID(), use: "sig", alg };
}

const server = createServer((request, response) => handle(request, response));
let handle = () => {};
server.listen(Number(wanted), "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const client = {
    client_secret: "the-secret-of-the-client+/%",
    grant_types: ["authorization_code"],
    response_types: ["code"],
    // The port of the gateway is not known yet: a loopback address of a native client takes any.
    redirect_uris: ["http://127.0.0.1/console/oidc/callback"],
    application_type: "native",
  };
  const provider = new Provider(issuer, {
    clients: [
      { ...client, client_id: "gate", token_endpoint_auth_method: "client_secret_basic" },
      { ...client, client_id: "gate-es256", token_endpoint_auth_method: "client_secret_post", id_token_signed_response_alg: "ES256" },
      { ...client, client_id: "other", token_endpoint_auth_method: "client_secret_basic" },
    ],
    clientAuthMethods: ["client_secret_basic", "client_secret_post", "none"],
    jwks: { keys: [makeKey("RS256", "rsa", { modulusLength: 2048 }), makeKey("ES256", "ec", { namedCurve: "P-256" })] },
    enabledJWA: { idTokenSigningAlgValues: ["RS256", "ES256"] },
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"], groups: ["groups"] },
    scopes: ["openid", "email", "profile", "groups"],
    pkce: { required: () => true },
    features: { devInteractions: { enabled: true } },
    cookies: { keys: [randomUUID()] },
    findAccount: (context, login) => ({
      accountId: login,
      claims: () => ({ sub: login, ...(read()[login] ?? {}) }),
    }),
  });
  handle = provider.callback();
  console.log(`oidc-provider: ${issuer}`);
});
