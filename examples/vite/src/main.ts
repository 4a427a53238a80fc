import { Areole, AreoleError, tool } from "areole";

const lamp = document.querySelector("output")!;
const said = document.querySelector("#said")!;

const setLamp = tool(
  ({ state }) => {
    lamp.value = state;
    return { lamp: state };
  },
  {
    name: "set_lamp",
    description: "Switch the lamp on or off.",
    parameters: { type: "object", properties: { state: { type: "string", enum: ["on", "off"] } }, required: ["state"] },
  },
);

const areole = Areole.load({
  base: new URL("areole/", document.baseURI).href,
  tools: [setLamp],
  onProgress: ({ loaded, total }) => {
    said.textContent = `${Math.round((100 * loaded) / total)} %`;
  },
});

document.querySelector("form")!.addEventListener("submit", async (event) => {
  event.preventDefault();
  const request = new FormData(event.target as HTMLFormElement).get("request") as string;
  try {
    const { text, ran } = await (await areole).run(request);
    said.textContent = text || `${ran.length} calls`;
  } catch (error) {
    said.textContent = error instanceof AreoleError ? `${error.code}: ${error.message}` : String(error);
  }
});
